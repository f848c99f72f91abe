//! Commands in pods: a test decides, in place of a kubelet. `pods/exec` goes over a websocket:
//! subprotocols v5 and v4, which send binary messages with the channel in the first octet.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role};

use super::reply::Body;
use super::request::parameters;
use super::{Api, Route, header};
use crate::api::{ApiError, Kind, ObjectRef};

const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// The end of a session. kubectl takes one without a code for an error.
const END: CloseFrame = CloseFrame {
    code: CloseCode::Normal,
    reason: Utf8Bytes::from_static(""),
};

/// Most octets of output in a message.
const CHUNK: usize = 32 * 1024;

impl Api {
    /// Switches to the websocket and runs the command there. As Kubernetes from 1.35 on, it
    /// requires the right to create beside the one of the method, which is GET.
    pub(super) fn exec(&self, parts: &Parts, route: &Route) -> Result<Response<Body>, ApiError> {
        self.access.check("create", route)?;
        let target = route.target(Kind::Pod, None)?;
        self.store.get(&target).ok_or_else(|| target.missing())?;
        let ObjectRef {
            namespace,
            name: pod,
            ..
        } = target;
        let words = parameters(parts.uri.query().unwrap_or_default())
            .filter(|(key, _)| key == "command")
            .map(|(_, word)| word);
        let exec = Exec {
            namespace,
            pod,
            command: words.collect(),
        };
        let upgrade = parts.extensions.get::<OnUpgrade>().cloned();
        let (upgrade, response) = upgrade
            .zip(switch(parts))
            .ok_or_else(|| ApiError::bad_request("you must specify the websocket protocol"))?;
        // Before the command: a reset during it ends this session, too.
        let mut faults = self.faults.clone();
        let resets = faults.borrow().resets;
        let run = self.execs.ask(&exec);
        tokio::spawn(async move {
            let session = async {
                if let Ok(upgraded) = upgrade.await {
                    serve(upgraded, run).await;
                }
            };
            tokio::select! {
                () = session => {}
                _ = faults.wait_for(|now| now.outage || now.resets != resets) => {}
            }
        });
        Ok(response)
    }
}

/// The answer that begins the websocket; none if the request does not ask for one that this server
/// speaks.
fn switch(parts: &Parts) -> Option<Response<Body>> {
    let offered = header(&parts.headers, SEC_WEBSOCKET_PROTOCOL);
    let chosen = PROTOCOLS
        .into_iter()
        .find(|known| offered.split(',').any(|one| one.trim() == *known))?;
    let request = Request::from_parts(parts.clone(), ());
    let mut response = create_response_with_body(&request, || Empty::new().boxed_unsync()).ok()?;
    response
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(chosen));
    Some(response)
}

/// Sends the output and the status of a command when it has ended. Ends, and kills its process,
/// when the client leaves.
async fn serve(upgraded: Upgraded, run: Run) {
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let (mut to, mut from) = socket.split();
    let output = async {
        for message in messages(run).await {
            to.send(message).await?;
        }
        to.send(Message::Close(Some(END))).await
    };
    tokio::select! {
        _ = output => {
            // The client closes its side after it has read all.
            while let Some(Ok(_)) = from.next().await {}
        }
        () = async { while let Some(Ok(_)) = from.next().await {} } => {}
    }
}

async fn messages(run: Run) -> Vec<Message> {
    let ended = match run {
        Run::Hangs => std::future::pending().await,
        Run::Fails(error) => Err(error),
        Run::Prints {
            stdout,
            stderr,
            code,
        } => Ok((stdout, stderr.into_bytes(), code)),
        Run::Process(command) => {
            let mut command = tokio::process::Command::from(command);
            let output = command
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .output()
                .await;
            let ended = output.map(|it| (it.stdout, it.stderr, it.status.code().unwrap_or(137)));
            ended.map_err(|error| ApiError::new(500, "InternalError", error.to_string()))
        }
    };
    let (stdout, stderr, status) = match ended {
        Ok((stdout, stderr, code)) => (stdout, stderr, exit(code)),
        Err(error) => (Vec::new(), Vec::new(), error.status()),
    };
    let channels = [
        (STDOUT, stdout),
        (STDERR, stderr),
        (STATUS, status.to_string().into_bytes()),
    ];
    let mut messages = Vec::new();
    for (channel, content) in &channels {
        for chunk in content.chunks(CHUNK) {
            messages.push(Message::Binary([&[*channel], chunk].concat().into()));
        }
    }
    messages
}

/// The status of a command that ended, as a kubelet reports it.
fn exit(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let causes = json!([{"reason": "ExitCode", "message": code.to_string()}]);
    json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes},
        "message": format!("command terminated with non-zero exit code: exit status {code}")})
}

/// A command that a client runs in a pod (`kubectl exec`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// What becomes of a command.
#[derive(Debug)]
pub enum Run {
    /// It prints this and ends.
    Prints {
        /// Standard output.
        stdout: Vec<u8>,
        /// Standard error.
        stderr: String,
        /// Exit code.
        code: i32,
    },
    /// It runs and prints nothing, without end.
    Hangs,
    /// The API server cannot run it, as when it does not reach the kubelet.
    Fails(ApiError),
    /// A process of this machine runs in its place.
    Process(Command),
}

type Handler = dyn Fn(&Exec) -> Run + Send + Sync;

/// What runs commands in the pods of a server (`kubectl exec`).
#[derive(Default)]
pub struct Execs(Mutex<Option<Arc<Handler>>>);

impl Execs {
    /// Answers every command from now on.
    pub fn answer(&self, handler: impl Fn(&Exec) -> Run + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(handler));
    }

    fn ask(&self, exec: &Exec) -> Run {
        let handler = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        handler.map_or_else(
            || {
                Run::Fails(ApiError::new(
                    500,
                    "InternalError",
                    "no kubelet runs this pod",
                ))
            },
            |run| run(exec),
        )
    }
}

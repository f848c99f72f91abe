//! A command in an agent's pod.

use super::agents::{Agent, Fleet};
use futures::FutureExt as _;
use futures::future::OptionFuture;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use kube::client::UpgradeConnectionError;
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Most octets that are read of a node's answer. An archive of a node has some MB.
const LIMIT: u64 = 64 << 20;

/// Octets that are read ahead.
const BUFFER: usize = 64 * 1024;

/// What a command printed, and its exit code.
#[derive(Debug)]
pub struct Done {
    /// Standard output, at most [`LIMIT`] octets.
    pub stdout: Vec<u8>,
    /// Standard error, at most [`LIMIT`] octets.
    pub stderr: Vec<u8>,
    /// Exit code; 0 is success.
    pub code: u8,
}

/// Why a command did not run, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The cause and the remedy, in one line.
    pub why: String,
    /// Whether another attempt makes sense.
    pub next: Next,
}

/// What makes sense after a command that did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To try again.
    Again,
    /// To ask the pod that replaces this one.
    Successor,
    /// Nothing: a right is missing, or the plugin is of another version.
    Nothing,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self {
            why,
            next: Next::Again,
        }
    }
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// Begins a command.
pub async fn start(fleet: &Fleet, agent: &Agent, command: &[String]) -> Result<AttachedProcess, Refused> {
    if let Some(obstacle) = &agent.obstacle {
        return Err(Refused {
            why: obstacle.clone(),
            next: Next::Successor,
        });
    }
    let namespace = &fleet.scope.agents_namespace;
    let pods: Api<Pod> = Api::namespaced(fleet.client.clone(), namespace);
    let params = AttachParams::default()
        .container(&agent.container)
        .stdin(false)
        .max_stdout_buf_size(BUFFER);
    let started = pods.exec(&agent.pod, command, &params).await;
    started.map_err(|error| refused(error, namespace))
}

/// Runs a command to its end. Errors: it could not run, or the connection ended before it did.
pub async fn run(fleet: &Fleet, agent: &Agent, command: &[String]) -> Result<Done, Refused> {
    let mut process = start(fleet, agent, command).await?;
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let mut status = pin!(status(&mut process));
    let mut output = pin!(async { tokio::join!(read(stdout), read(stderr)) });
    let ((stdout, stderr), status) = tokio::select! {
        output = &mut output => (output, status.await),
        status = &mut status => {
            // Without a status the connection broke, and the output does not end.
            code(status.as_ref())?;
            (output.await, status)
        }
    };
    Ok(Done {
        stdout,
        stderr,
        code: code(status.as_ref())?,
    })
}

/// The status of a command once it has ended; none if the connection ended before.
pub fn status(process: &mut AttachedProcess) -> impl Future<Output = Option<Status>> + use<> {
    OptionFuture::from(process.take_status()).map(Option::flatten)
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(from) = from {
        // What came before an error may hold the cause. What is cut cannot be read, and is reported as that.
        let _ = from.take(LIMIT).read_to_end(&mut all).await;
    }
    all
}

/// The exit code in a status. Errors: there is none, or the command could not run.
pub fn code(status: Option<&Status>) -> Result<u8, Refused> {
    let status = status.ok_or("the connection ended before the command")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let details = status.details.iter();
    let mut causes = details.flat_map(|details| details.causes.iter().flatten());
    let code = causes.find_map(|cause| {
        let is_code = cause.reason.as_deref() == Some("ExitCode");
        is_code.then_some(cause.message.as_ref()?.parse::<i32>().ok()?)
    });
    match code {
        Some(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        None => Err(Refused {
            why: one_line(status.message.as_deref().unwrap_or("the command cannot run")),
            next: status.code.map_or(Next::Again, next),
        }),
    }
}

/// What makes sense after an answer of the API server.
const fn next(code: i32) -> Next {
    match code {
        403 => Next::Nothing,
        404 => Next::Successor,
        _ => Next::Again,
    }
}

fn refused(error: kube::Error, namespace: &str) -> Refused {
    let code = match &error {
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)) => code.as_u16(),
        kube::Error::Api(status) => status.code,
        _ => {
            let cause = anyhow::Error::from(error).root_cause().to_string();
            return format!("the connection broke: {}", one_line(&cause)).into();
        }
    };
    let why = match code {
        403 => format!(
            "may not run commands in its pod: grant the account the verbs get and create on pods/exec in namespace {namespace}"
        ),
        401 => "the API server does not accept the credentials: renew them".to_owned(),
        404 => "its pod was deleted: if its agent restarts, ask again".to_owned(),
        code => format!("the API server answers {code} to exec: see whether the node is ready"),
    };
    Refused {
        why,
        next: next(code.into()),
    }
}

fn one_line(text: &str) -> String {
    // rustls adds the address of its manual.
    let text = text.split(": https://").next().unwrap_or(text);
    text.trim().replace('\n', " ")
}

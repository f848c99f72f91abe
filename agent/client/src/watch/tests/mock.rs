//! An API server in which the test itself answers each request.

use crate::watch::attempts::Start;
use crate::watch::session::Narrowing;
use crate::watch::tests::boot;
use crate::watch::{Clock, Message, WatchEvent, Watches};
use bytes::Bytes;
use epguard_core::facts::{Change, Fact, ObjectName, Pod, Watched};
use epguard_core::freshness::Proof;
use http_body_util::channel::{Channel, Sender};
use hyper::{Request, Response, Uri};
use kube::client::Body;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// Messages that wait for the rig at most.
pub const ROOM: usize = 64;

type Answer = Response<Channel<Bytes>>;

/// A watch of pods, and both of its ends.
pub struct Rig {
    pub server: Server,
    pub watches: Watches,
    /// The proofs received so far, each with the moment as of which it holds.
    pub proofs: Vec<(Proof, Duration)>,
    messages: mpsc::Receiver<Message>,
}

pub struct Server(mpsc::UnboundedReceiver<Call>);

/// A request that waits for its answer.
pub struct Call {
    uri: Uri,
    answer: oneshot::Sender<Answer>,
}

/// The open answer to a watch; dropping it ends the stream in order.
pub struct Stream(Sender<Bytes>);

impl Rig {
    pub fn new() -> Self {
        Self::start(boot, None, None)
    }

    /// A watch of the pods of which one is watched alone, if there are more than `most`.
    pub fn narrowed(name: &str, most: usize) -> Self {
        Self::start(
            boot,
            None,
            Some(Narrowing {
                name: name.to_owned(),
                most,
            }),
        )
    }

    /// A watch of one pod.
    pub fn watching(pod: &ObjectName) -> Self {
        Self::start(boot, Some(pod), None)
    }

    /// A watch with another clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self::start(clock, None, None)
    }

    fn start(clock: Clock, one: Option<&ObjectName>, narrowing: Option<Narrowing>) -> Self {
        let (client, server) = Server::new();
        let (tx, messages) = mpsc::channel(ROOM);
        let mut watches = Watches::default();
        let start = Start {
            client,
            clock,
            watched: Watched::Pods,
            one: one.cloned(),
            narrowing,
            messages: tx,
            server: Arc::default(),
        };
        watches.start(Watched::Pods, start);
        Self {
            server,
            watches,
            proofs: Vec::new(),
            messages,
        }
    }

    /// A watch that has listed pod `a` at version 7 and is up.
    pub async fn streaming() -> (Self, Stream) {
        let mut rig = Self::new();
        let stream = rig.listed(&[("a", 3)], 7).await;
        rig.says(&["reset a @7", "up"]).await;
        (rig, stream)
    }

    /// The same, once its list has proven it fresh.
    pub async fn fresh() -> (Self, Stream) {
        let (mut rig, stream) = Self::streaming().await;
        assert_eq!(rig.proven().await, [Proof::List]);
        (rig, stream)
    }

    /// The next request, which is of this kind.
    pub async fn called(&mut self, kind: &str) -> Call {
        let call = self.server.call().await;
        assert_eq!(call.kind(), kind);
        call
    }

    /// The next request, after a freshness check was asked for.
    pub async fn checking(&mut self) -> Call {
        self.watches.check_freshness(Watched::Pods, Duration::ZERO);
        self.server.call().await
    }

    /// Answers the next request for a streamed list with these pods, each of a version, at this
    /// one.
    pub async fn listed(&mut self, pods: &[(&str, u64)], version: u64) -> Stream {
        let mut stream = self.called("stream").await.stream();
        for (name, version) in pods {
            stream.event("ADDED", &pod(name, *version)).await;
        }
        stream.bookmark(version, true).await;
        stream
    }

    /// The stream shows an event of a pod, which is sent at once.
    pub async fn relays(&mut self, stream: &mut Stream, kind: &str, name: &str, version: u64) {
        stream.event(kind, &pod(name, version)).await;
        let verb = if kind == "DELETED" {
            "deleted"
        } else {
            "applied"
        };
        assert_eq!(self.message().await, format!("{verb} {name} @{version}"));
    }

    /// Checks the next messages that aren't proofs, in short form.
    pub async fn says(&mut self, messages: &[&str]) {
        for expected in messages {
            assert_eq!(self.message().await, *expected);
        }
    }

    /// The next message that isn't a proof, in short form.
    pub async fn message(&mut self) -> String {
        loop {
            let message = self.messages.recv().await;
            let message = message.expect("the session lives as long as its receiver");
            if let Some(message) = self.take_proof(message) {
                return message;
            }
        }
    }

    /// When the next fact was received.
    pub async fn received(&mut self) -> tokio::time::Instant {
        loop {
            let message = self.messages.recv().await;
            let message = message.expect("the session lives as long as its receiver");
            if let WatchEvent::Fact { received, .. } = message.event {
                return received;
            }
        }
    }

    /// Lets the session work until it waits for something, then returns the message that it sent
    /// meanwhile.
    pub async fn told_meanwhile(&mut self) -> Option<String> {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        while let Ok(message) = self.messages.try_recv() {
            if let Some(message) = self.take_proof(message) {
                return Some(message);
            }
        }
        None
    }

    /// The proofs since the last call, once the stream has been quiet. Panics if any other message
    /// came.
    pub async fn proven(&mut self) -> Vec<Proof> {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(self.told_meanwhile().await, None);
        std::mem::take(&mut self.proofs)
            .into_iter()
            .map(|(by, _)| by)
            .collect()
    }

    fn take_proof(&mut self, message: Message) -> Option<String> {
        if let WatchEvent::Proven { as_of, by } = message.event {
            self.proofs.push((by, as_of));
            return None;
        }
        Some(short(message.event))
    }
}

impl Server {
    pub fn new() -> (kube::Client, Self) {
        let (calls, rx) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (answer, wait) = oneshot::channel();
            let uri = request.uri().clone();
            let sent = calls.send(Call { uri, answer });
            async move {
                sent.map_err(|_| "connection refused")?;
                wait.await.map_err(|_| "connection reset")
            }
        });
        (kube::Client::new(service, "default"), Self(rx))
    }

    pub async fn call(&mut self) -> Call {
        self.0.recv().await.expect("a client that asks")
    }

    /// How many requests wait that no test has taken up.
    pub fn waiting(&self) -> usize {
        self.0.len()
    }
}

impl Call {
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// A parameter of the query as it stands in the URI; none if it's absent or empty, which the
    /// API treats alike.
    pub fn param(&self, name: &str) -> Option<&str> {
        let pairs = self
            .uri
            .query()?
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
            .next()
    }

    /// `list`, `check`, `stream`, `watch VERSION` or `probe VERSION`, for any other parameters.
    pub fn kind(&self) -> String {
        match (self.param("watch"), self.param("sendInitialEvents")) {
            (None, _) if self.param("limit") == Some("500") => "list".to_owned(),
            (None, _) => "check".to_owned(),
            (Some(_), Some(_)) => "stream".to_owned(),
            (Some(_), None) => {
                let short = self.param("timeoutSeconds") == Some("3");
                let after = self.param("resourceVersion").unwrap_or("anything");
                format!("{} {after}", if short { "probe" } else { "watch" })
            }
        }
    }

    pub fn stream(self) -> Stream {
        Stream(self.answer(200))
    }

    pub async fn page(self, version: u64, next: &str, items: &[String]) {
        let items = items.join(",");
        let body = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{items}]}}"#
        );
        Stream(self.answer(200)).send(&body).await;
    }

    pub async fn refuse(self, code: u16, message: &str) {
        Stream(self.answer(code)).send(&status(code, message)).await;
    }

    fn answer(self, code: u16) -> Sender<Bytes> {
        let (sender, body) = Channel::<Bytes, Infallible>::new(16);
        let response = Response::builder().status(code).body(body).unwrap();
        assert!(self.answer.send(response).is_ok(), "the client hung up");
        sender
    }
}

impl Stream {
    pub async fn send(&mut self, text: &str) {
        self.0
            .send_data(Bytes::from(text.to_owned()))
            .await
            .expect("a client that reads");
    }

    pub async fn event(&mut self, kind: &str, object: &str) {
        self.send(&format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
            .await;
    }

    pub async fn bookmark(&mut self, version: u64, complete: bool) {
        let annotations = if complete {
            r#"{"k8s.io/initial-events-end":"true"}"#
        } else {
            "null"
        };
        let object = format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{annotations}}}}}"#
        );
        self.event("BOOKMARK", &object).await;
    }

    pub async fn error(&mut self, code: u16, message: &str) {
        self.event("ERROR", &status(code, message)).await;
    }
}

pub fn pod(name: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"6f1f9f3e-0000-4000-8000-000000000001","resourceVersion":"{version}"}}}}"#
    )
}

fn status(code: u16, message: &str) -> String {
    format!(r#"{{"kind":"Status","status":"Failure","message":"{message}","code":{code}}}"#)
}

fn short(event: WatchEvent) -> String {
    let WatchEvent::Fact { rv, fact, .. } = event else {
        return match event {
            WatchEvent::Progress(rv) => format!("progress @{rv}"),
            WatchEvent::Up => "up".to_owned(),
            WatchEvent::Down { error, .. } => format!("down: {error}"),
            WatchEvent::Skipped(what) => format!("skipped {what}"),
            WatchEvent::Behind => "behind".to_owned(),
            WatchEvent::CheckFailed(error) => format!("check failed: {error}"),
            WatchEvent::Rewound(error) => format!("rewound: {error}"),
            WatchEvent::Fact { .. } | WatchEvent::Proven { .. } | WatchEvent::NodeSeen(_) => {
                unreachable!()
            }
        };
    };
    let Fact::Pod(change) = *fact else {
        panic!("a watch of pods message {fact:?}");
    };
    let (verb, pods) = match change {
        Change::Reset(pods) => ("reset", pods),
        Change::Part(part) => {
            let objects = part.objects.into_iter().map(|pod| pod.name.name);
            let later = part.later.into_iter().map(|pod| pod.name);
            let [objects, later] =
                [objects.collect::<Vec<_>>(), later.collect()].map(|names| names.join(" "));
            return format!("part {objects}, but {later} later @{rv}");
        }
        Change::Applied(pod) => ("applied", vec![pod]),
        Change::Deleted(pod) => ("deleted", vec![pod]),
        Change::Gone(pod) => ("gone", vec![pod]),
    };
    let mut names: Vec<String> = pods
        .into_iter()
        .map(|Pod { name, .. }| name.name.to_string())
        .collect();
    names.sort();
    format!("{verb} {} @{rv}", names.join(" "))
}

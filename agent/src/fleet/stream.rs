//! A stream of each node's documents (`epguard top -o json`), one a second.
//!
//! A document comes even when nothing is denied, so the command ends on its node within a second after this program.

use super::agents::{Agent, Fleet};
use super::decode::{Unread, decode, failure};
use super::exec::{self, Next, Refused};
use super::places::{Places, late};
use super::version;
use crate::commands::top::Document;
use kube::api::AttachedProcess;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep, timeout};

/// Seconds to wait for a document.
pub const PATIENCE: u64 = 10;
/// Most octets of one connection's documents: it begins anew after them.
const LIMIT: u64 = 64 << 20;
/// Time until a node that was lost is asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest time that a node that hangs keeps its place among those that are opened.
const OPENING: Duration = Duration::from_secs(2);

/// What a stream brings.
#[derive(Debug)]
pub enum Update {
    /// The node's state at this moment.
    Document(Box<Document>),
    /// No document comes any more, until the next one. The cause.
    Lost(String),
}

/// All streams.
struct Streams {
    fleet: Fleet,
    /// A bounded number is opened at a time.
    opening: Places,
    /// The same for nodes that were lost: the others do not wait behind them.
    again: Places,
    /// The agents, as last listed for one that was replaced.
    listed: Mutex<(Instant, Vec<Agent>)>,
    patience: Duration,
    to: Sender<(String, Update)>,
}

/// Follows all nodes, and names the node with each of its updates. A node that is lost is asked again, or the pod that
/// replaces its agent is, unless the cause stays: after the last node the channel ends.
pub fn documents(fleet: Fleet) -> Receiver<(String, Update)> {
    let (to, receiver) = channel(fleet.agents.len().max(1));
    let (patience, parallel) = (fleet.scope.patience(PATIENCE), fleet.scope.parallel);
    let agents = fleet.agents.clone();
    let streams = Arc::new(Streams {
        fleet,
        opening: Places::new(parallel, patience).kept_for(OPENING),
        again: Places::new(parallel, patience).kept_for(OPENING),
        listed: Mutex::new((Instant::now(), agents.clone())),
        patience,
        to,
    });
    for agent in agents {
        let streams = Arc::clone(&streams);
        tokio::spawn(async move { streams.keep(agent).await });
    }
    receiver
}

impl Streams {
    /// Follows a node. Ends if the receiver does, or for a cause that stays.
    async fn keep(&self, mut agent: Agent) {
        let mut known = None;
        let mut places = &self.opening;
        loop {
            let Refused { why, next } = self.follow(&agent, places, &mut known).await;
            if known.as_ref() != Some(&why) {
                known = Some(why.clone());
                if !self.send(&agent, Update::Lost(why)).await {
                    return;
                }
            }
            places = &self.again;
            match next {
                Next::Nothing => return,
                Next::Again => sleep(PAUSE).await,
                Next::Successor => agent = self.successor(&agent).await,
            }
        }
    }

    /// Waits for the pod that replaces one, as during an upgrade. All nodes share a list.
    async fn successor(&self, old: &Agent) -> Agent {
        loop {
            sleep(PAUSE).await;
            let mut listed = self.listed.lock().await;
            if listed.0.elapsed() >= PAUSE {
                let agents = Fleet::find(&self.fleet.scope).await.map(|fleet| fleet.agents);
                *listed = (Instant::now(), agents.unwrap_or_default());
            }
            let new = listed.1.iter().find(|new| new.node == old.node);
            if let Some(new) = new.filter(|new| new.obstacle.is_none() && *new != old) {
                return new.clone();
            }
        }
    }

    /// Sends documents until the stream ends, and returns why it did. A cause is reported once: `known` is forgotten with
    /// the next document.
    async fn follow(&self, agent: &Agent, places: &Places, known: &mut Option<String>) -> Refused {
        let command = ["epguard", "top", "--output", "json", "--count", "4294967295"].map(str::to_owned);
        let mut process = match places.run(exec::start(&self.fleet, agent, &command)).await {
            Ok(process) => process,
            Err(refused) => return refused,
        };
        let Some(stdout) = process.stdout() else {
            return "it has no output".into();
        };
        let mut lines = BufReader::new(stdout.take(LIMIT)).lines();
        loop {
            let line = match timeout(self.patience, lines.next_line()).await {
                Err(_) => return late(self.patience).into(),
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None) | Err(_)) => return self.end(agent, process).await,
            };
            match decode(line.as_bytes(), self.fleet.scope.output) {
                Ok(document) => {
                    *known = None;
                    if !self.send(agent, Update::Document(document)).await {
                        return "".into();
                    }
                }
                Err(unread) => return self.unread(agent, unread).await,
            }
        }
    }

    /// Why a command ended.
    async fn end(&self, agent: &Agent, mut process: AttachedProcess) -> Refused {
        let status = exec::status(&mut process);
        let mut stderr = Vec::new();
        if let Some(mut from) = process.stderr() {
            let _ = timeout(self.patience, from.read_to_end(&mut stderr)).await;
        }
        if let Some(unread) = failure(&stderr) {
            return self.unread(agent, unread).await;
        }
        match exec::code(status.await.as_ref()) {
            Ok(code) => format!("its command ended with exit code {code}").into(),
            Err(refused) => refused,
        }
    }

    /// An answer in another form stays, as long as the pod does.
    async fn unread(&self, agent: &Agent, unread: Unread) -> Refused {
        let why = match unread {
            Unread::Because(why) => return why.into(),
            Unread::Newer(why) => why,
            Unread::Foreign(why) => version::explain(&self.fleet, agent, self.patience, why).await,
        };
        let next = Next::Nothing;
        Refused { why, next }
    }

    /// Whether the update has a receiver.
    async fn send(&self, agent: &Agent, update: Update) -> bool {
        self.to.send((agent.node.clone(), update)).await.is_ok()
    }
}

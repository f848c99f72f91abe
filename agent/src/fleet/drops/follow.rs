//! New denials of all nodes, a line each, as they come: `epguard drops -f` on each node.
//!
//! That command prints a list each second, even an empty one, so it ends on its node within a second after this program.

use crate::commands::drops::{Filter, text_line};
use crate::fleet::agents::{Agent, Fleet};
use crate::fleet::ask::UNKNOWN;
use crate::fleet::decode::{Unread, decode, failure};
use crate::fleet::exec::{self, Next, Refused};
use crate::fleet::lines::{self, Line};
use crate::fleet::missing::{self, Missing};
use crate::fleet::output;
use crate::fleet::places::{Places, late};
use crate::fleet::scope::Form;
use crate::fleet::version;
use crate::shared::drops::Dropped;
use anyhow::Result;
use kube::api::AttachedProcess;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{Instant, interval, sleep, timeout};

/// Time between two looks at which nodes stopped answering.
const PACE: Duration = Duration::from_secs(1);
/// Seconds to wait for a list.
const PATIENCE: u64 = 10;
/// Most octets of one connection's lists: it begins anew after them.
const LIMIT: u64 = 64 << 20;
/// Time until a node that was lost is asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest time that a node that hangs keeps its place among those that are opened.
const OPENING: Duration = Duration::from_secs(2);

/// New denials of a node, or why it stopped answering.
type Update = Result<Vec<Line<Dropped>>, String>;

/// A line of `-o json`.
#[derive(Serialize)]
struct OfNode<'a, T> {
    node: &'a str,
    #[serde(flatten)]
    dropped: &'a T,
}

/// Prints until interrupted, or until no node can be asked any more. Nodes that stop answering are named on standard error
/// once, those with the same cause in one line. Errors: the output fails.
pub async fn run(fleet: Fleet, filter: &Filter) -> Result<ExitCode> {
    let form = fleet.scope.output;
    let patience = fleet.scope.patience(PATIENCE);
    let agents = fleet.agents.clone();
    let mut waiting: BTreeSet<String> = agents.iter().map(|agent| agent.node.clone()).collect();
    let mut lost = fleet.without();
    let (to, mut updates) = channel(agents.len().max(1));
    let nodes = Arc::new(Nodes {
        places: Places::new(fleet.scope.parallel, patience).kept_for(OPENING),
        listed: Mutex::new((Instant::now(), agents.clone())),
        patience,
        fleet,
        to,
    });
    for agent in agents {
        let nodes = Arc::clone(&nodes);
        tokio::spawn(async move { nodes.keep(agent).await });
    }
    drop(nodes);
    let mut ticks = interval(PACE);
    // The first report waits for all nodes, to name those with the same cause at once.
    let until = Instant::now() + patience + PACE;
    loop {
        tokio::select! {
            update = updates.recv() => {
                let Some((node, update)) = update else { break };
                waiting.remove(&node);
                match update {
                    Ok(new) => print(&node, &new, filter, form)?,
                    Err(why) => lost.push(Missing { node, why }),
                }
            }
            _ = ticks.tick() => if waiting.is_empty() || Instant::now() >= until {
                name(&mut lost);
            }
        }
    }
    name(&mut lost);
    Ok(UNKNOWN.into())
}

/// Names nodes that stopped answering.
fn name(lost: &mut Vec<Missing>) {
    lost.sort();
    let text = missing::text(lost);
    text.lines()
        .for_each(|line| output::error(&format!("epguard: {line}")));
    lost.clear();
}

fn print(node: &str, new: &[Line<Dropped>], filter: &Filter, form: Form) -> Result<()> {
    if form.is_for_people() {
        for dropped in filter.of(lines::known(new)) {
            output::line(&format!("{node}: {}", text_line(&dropped)))?;
        }
        return Ok(());
    }
    for dropped in new {
        let wanted = match dropped {
            Line::Known(dropped) => filter.wants(&dropped.kind),
            Line::Other(_) => !filter.is_narrowed(),
        };
        if wanted {
            output::line(&serde_json::to_string(&OfNode { node, dropped })?)?;
        }
    }
    Ok(())
}

/// All nodes that are followed.
struct Nodes {
    fleet: Fleet,
    /// A bounded number is opened at a time.
    places: Places,
    /// The agents, as last listed for one that was replaced.
    listed: Mutex<(Instant, Vec<Agent>)>,
    patience: Duration,
    to: Sender<(String, Update)>,
}

impl Nodes {
    /// Follows a node. One that is lost is asked again, or the pod that replaces its agent is. Ends if the receiver does, or
    /// for a cause that stays.
    async fn keep(&self, mut agent: Agent) {
        let mut known = None;
        loop {
            let Refused { why, next } = self.follow(&agent, &mut known).await;
            if known.as_ref() != Some(&why) {
                known = Some(why.clone());
                if !self.send(&agent, Err(why)).await {
                    return;
                }
            }
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

    /// Sends what is new until the command ends, and returns why it did. A cause is reported once: `known` is forgotten with
    /// the next list.
    async fn follow(&self, agent: &Agent, known: &mut Option<String>) -> Refused {
        let command = ["epguard", "drops", "-f", "-o", "json"].map(str::to_owned);
        let mut process = match self.places.run(exec::start(&self.fleet, agent, &command)).await {
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
                Ok(new) => {
                    *known = None;
                    if !self.send(agent, Ok(new)).await {
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

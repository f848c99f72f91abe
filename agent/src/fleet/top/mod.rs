//! `kubectl epguard top`: the denials of all nodes at this moment, on the screen of `epguard top`.
//!
//! ```text
//! stream of each node's documents -> the latest of each -> sum (pure) -> Sample, one for each interval -> screen
//! ```

mod sum;

use super::agents::Fleet;
use super::ask::{PATIENCE, UNKNOWN};
use super::missing::{self, Missing};
use super::places::late;
use super::scope::Scope;
use super::stream::{self, Update};
use crate::commands::top::{self, Document, Sample};
use crate::shared::clock;
use crate::shared::drops::Dropped;
use anyhow::{Context as _, Result};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, interval_at, timeout_at};

/// Time between refreshes.
const PACE: Duration = Duration::from_secs(1);

/// Options of `kubectl epguard top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys and columns: epguard top --help. Without a terminal it prints text. With -n the table has the flows of one namespace;
the counts above it are of all.

Examples:
  kubectl epguard top
  kubectl epguard top -n shop
  kubectl epguard top --batch --count 10")]
pub struct TopArgs {
    /// Print plain text instead of a screen; this is the default without a terminal
    #[arg(short, long)]
    pub batch: bool,
    /// Snapshots to print [default: 1]; implies --batch
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// The latest of each node.
struct Latest {
    /// A document, or why there is none.
    nodes: BTreeMap<String, Result<Document, String>>,
    /// Whether a node did not answer when the last sample was taken.
    partial: Arc<AtomicBool>,
    scope: Scope,
}

/// Shows the screen until a key or a signal ends it, or prints text. Errors: no node answers, or the output fails.
pub async fn run(scope: &Scope, args: &TopArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    fleet.require()?;
    let (count, patience) = (fleet.agents.len(), scope.patience(PATIENCE));
    let mut latest = Latest::new(&fleet, patience);
    let partial = Arc::clone(&latest.partial);
    let mut updates = stream::documents(fleet);
    let (deadline, mut heard) = (Instant::now() + patience, BTreeSet::new());
    while heard.len() < count {
        match timeout_at(deadline, updates.recv()).await {
            Ok(Some((node, update))) => {
                heard.insert(node.clone());
                latest.take(node, update);
            }
            Ok(None) | Err(_) => break,
        }
    }
    let first = latest.sample(false);
    let (to, samples) = channel(1);
    tokio::spawn(refresh(updates, latest, to));
    let screen = top::present(first, samples, args.batch, args.count).await?;
    // Who leaves the screen has seen which nodes are missing.
    let code = if !screen && partial.load(Ordering::Relaxed) {
        UNKNOWN
    } else {
        0
    };
    Ok(code.into())
}

/// Sends a sample every second. Nodes that begin or end to answer make the rates of that second unknown.
async fn refresh(mut updates: Receiver<(String, Update)>, mut latest: Latest, to: Sender<Sample>) {
    let mut ticks = interval_at(Instant::now() + PACE, PACE);
    let mut counted = latest.answering();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let now = latest.answering();
                let renewed = now != counted;
                counted = now;
                if to.send(latest.sample(renewed)).await.is_err() {
                    return;
                }
            }
            Some((node, update)) = updates.recv() => latest.take(node, update),
        }
    }
}

impl Latest {
    /// No node has answered yet.
    fn new(fleet: &Fleet, patience: Duration) -> Self {
        let agents = fleet.agents.iter();
        let silent = agents.map(|agent| (agent.node.clone(), Err(late(patience))));
        let without = fleet.without().into_iter();
        let without = without.map(|Missing { node, why }| (node, Err(why)));
        Self {
            nodes: silent.chain(without).collect(),
            partial: Arc::default(),
            scope: fleet.scope.clone(),
        }
    }

    fn take(&mut self, node: String, update: Update) {
        let latest = match update {
            Update::Document(mut document) => {
                if let Some(agent) = &mut document.agent {
                    let wants = |dropped: &Dropped| self.scope.wants(Some(&dropped.kind.service));
                    agent.drops.retain(wants);
                }
                Ok(*document)
            }
            Update::Lost(why) => Err(why),
        };
        self.nodes.insert(node, latest);
    }

    fn answering(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|(_, document)| document.is_ok());
        nodes.map(|(node, _)| node.clone()).collect()
    }

    /// Nodes whose agents do not answer, with the cause.
    fn missing(&self) -> Vec<Missing> {
        let missing = self.nodes.iter().filter_map(|(node, latest)| {
            let why = match latest {
                Ok(document) if document.agent.is_some() => return None,
                Ok(document) => document.errors.join("; "),
                Err(why) => why.clone(),
            };
            let node = node.clone();
            Some(Missing { node, why })
        });
        missing.collect()
    }

    fn sample(&self, renewed: bool) -> Sample {
        let missing = self.missing();
        self.partial.store(!missing.is_empty(), Ordering::Relaxed);
        let silent = missing::text(&missing);
        let why = silent.lines().next().unwrap_or("no node has counts of packets");
        let none = || why.to_owned();
        let documents = || {
            let nodes = self.nodes.iter();
            nodes.filter_map(|(node, one)| Some((node.as_str(), one.as_ref().ok()?)))
        };
        let mut agent = sum::agent(documents(), &missing);
        if let (Some(agent), Some(namespace)) = (&mut agent, &self.scope.namespace) {
            agent.who = format!("{}; flows of {namespace}", agent.who);
            agent.narrowed = true;
        }
        Sample {
            at: clock::boot(),
            agent: agent.with_context(none),
            counters: sum::counters(documents().map(|(_, document)| document)).with_context(none),
            renewed,
        }
    }
}

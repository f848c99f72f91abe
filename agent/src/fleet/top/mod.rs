//! `kubectl epguard top`: the denials of all nodes at this moment, on the screen of `epguard top`.
//!
//! ```text
//! stream of each node's documents -> the latest of each -> sum (pure) -> Sample, one for each interval -> screen
//! ```

mod sum;

use super::agents::Fleet;
use super::scope::Scope;
use super::stream::{self, Update};
use crate::commands::top::{self, Document, Sample};
use crate::shared::clock;
use crate::shared::plain::plain;
use anyhow::{Context as _, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, interval_at, timeout_at};

/// Longest wait for the first documents, in seconds.
const PATIENCE: u64 = 5;
/// Time between refreshes.
const PACE: Duration = Duration::from_secs(1);

/// Options of `kubectl epguard top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys and columns: epguard top --help. Without a terminal it prints text.

Examples:
  kubectl epguard top
  kubectl epguard top --batch --count 10")]
pub struct TopArgs {
    /// Print plain text instead of a screen; this is the default without a terminal
    #[arg(short, long)]
    pub batch: bool,
    /// Snapshots to print [default: 1]; implies --batch
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

/// The latest of each node: a document, or why there is none.
type Latest = BTreeMap<String, Result<Document, String>>;

/// Shows the screen until a key or a signal ends it, or prints text. Errors: no node answers, or the output fails.
pub async fn run(scope: &Scope, args: &TopArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    fleet.require()?;
    let (nodes, patience) = (fleet.agents.len(), scope.patience(PATIENCE));
    let mut updates = stream::documents(fleet);
    let mut latest = Latest::new();
    let deadline = Instant::now() + patience;
    while latest.len() < nodes {
        match timeout_at(deadline, updates.recv()).await {
            Ok(Some((node, update))) => take(&mut latest, node, update),
            Ok(None) | Err(_) => break,
        }
    }
    let first = sample(&latest, nodes, false);
    let (to, samples) = channel(1);
    tokio::spawn(refresh(updates, latest, nodes, to));
    top::present(first, samples, args.batch, args.count).await?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a sample every second. Nodes that begin or end to answer make the rates of that second unknown.
async fn refresh(
    mut updates: Receiver<(String, Update)>,
    mut latest: Latest,
    nodes: usize,
    to: Sender<Sample>,
) {
    let mut ticks = interval_at(Instant::now() + PACE, PACE);
    let mut counted = answering(&latest);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let now = answering(&latest);
                let renewed = now != counted;
                counted = now;
                if to.send(sample(&latest, nodes, renewed)).await.is_err() {
                    return;
                }
            }
            Some((node, update)) = updates.recv() => take(&mut latest, node, update),
        }
    }
}

fn take(latest: &mut Latest, node: String, update: Update) {
    let latest_of_node = match update {
        Update::Document(document) => Ok(*document),
        Update::Lost(why) => Err(plain(&why).into_owned()),
    };
    latest.insert(node, latest_of_node);
}

fn answering(latest: &Latest) -> Vec<String> {
    let nodes = latest.iter().filter(|(_, document)| document.is_ok());
    nodes.map(|(node, _)| node.clone()).collect()
}

fn sample(latest: &Latest, nodes: usize, renewed: bool) -> Sample {
    let lost = { latest.values() }.find_map(|one| one.as_ref().err());
    let none = || {
        anyhow::anyhow!(
            "no node answers: {}",
            lost.map_or("none within the time limit", |why| why)
        )
    };
    let documents = || {
        latest
            .iter()
            .filter_map(|(node, one)| Some((node.as_str(), one.as_ref().ok()?)))
    };
    Sample {
        at: clock::boot(),
        agent: sum::agent(documents(), nodes).with_context(none),
        counters: sum::counters(documents().map(|(_, document)| document)).with_context(none),
        renewed,
    }
}

//! `kubectl epguard drops`: denied flows of all nodes, or new ones as they come.

use super::agents::Fleet;
use super::ask::{self, Answer, Asked, Document, UNKNOWN};
use super::missing::{self, names};
use super::output;
use super::scope::Scope;
use crate::commands::drops::{Follower, table, text_line};
use crate::shared::args::{one_of, service};
use crate::shared::drops::{Dropped, Kind};
use anyhow::Result;
use clap::Args;
use epguard_common::Reason;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time between two requests to all nodes.
const PACE: Duration = Duration::from_secs(2);
/// The most clients of a row, as in the agent.
const CLIENTS: usize = 8;

/// Options of `kubectl epguard drops`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl epguard drops                    what any node denied, or would have, since its agent's start
  kubectl epguard drops -f -n shop         new denials as they come, for the Services of one namespace
  kubectl epguard drops --node worker-1 --reason reused -o json")]
pub struct DropsArgs {
    /// Ask all nodes every 2 seconds until interrupted, and print new denials
    #[arg(short, long)]
    pub follow: bool,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
    /// Only this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
}

/// Each entry, as some may be in words of another version.
type Drops = Document<Vec<Value>>;

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &DropsArgs) -> Result<ExitCode> {
    let mut command = vec!["drops"];
    let reason = args.reason.map(Reason::as_str);
    let filters = [
        ("--namespace", scope.namespace.as_deref()),
        ("--service", args.service.as_deref()),
        ("--reason", reason),
    ];
    for (flag, value) in filters {
        command.extend(value.iter().flat_map(|value| [flag, value]));
    }
    if args.follow {
        return follow(scope, &command).await;
    }
    let fleet = Fleet::find(scope).await?;
    let asked = ask::ask(&fleet, &command, ask::PATIENCE, None).await;
    let narrowed = command.len() > 1;
    asked.print(&fleet, &(), |answers| text(answers, narrowed))
}

/// Prints what is new, until interrupted. Nodes that do not answer are named once on standard error. What they deny meanwhile is
/// shown once they answer: agents count it. Errors: the output fails, or at first no node answers.
async fn follow(scope: &Scope, command: &[&str]) -> Result<ExitCode> {
    let begun = Instant::now();
    let mut followers: BTreeMap<String, Follower> = BTreeMap::new();
    let mut named = BTreeSet::new();
    loop {
        let mut lost = Vec::new();
        match Fleet::find(scope).await {
            Err(error) if followers.is_empty() => return Err(error),
            Err(error) => lost.push(format!("{error:#}")),
            Ok(fleet) => {
                let Asked { answers, missing } = ask::ask(&fleet, command, ask::PATIENCE, None).await;
                lost.extend(missing::text(&missing).lines().map(str::to_owned));
                lost.extend(left_out(&answers));
                for answer in &answers {
                    let follower = followers.entry(answer.node().to_owned());
                    let follower = follower.or_insert_with(|| Follower::since(begun));
                    for dropped in follower.new_of(&known(answer)) {
                        print(answer.node(), &dropped, scope)?;
                    }
                }
            }
        }
        let lost: BTreeSet<String> = lost.into_iter().collect();
        for line in lost.difference(&named) {
            output::error(&format!("epguard: {line}"));
        }
        if followers.is_empty() {
            return Ok(UNKNOWN.into());
        }
        named = lost;
        sleep(PACE).await;
    }
}

fn print(node: &str, dropped: &Dropped, scope: &Scope) -> Result<()> {
    if scope.output.is_for_people() {
        return output::line(&format!("{node}: {}", text_line(dropped)));
    }
    let mut document = serde_json::to_value(dropped)?;
    document["node"] = node.into();
    output::line(&document.to_string())
}

/// The entries that this version knows.
fn known(answer: &Answer<Drops>) -> Vec<Dropped> {
    let entries = answer.value.known.iter();
    entries.filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
}

/// How many entries are not shown; none if all are.
fn left_out(answers: &[Answer<Drops>]) -> Option<String> {
    let others = |answer: &&Answer<Drops>| answer.value.known.len() - known(answer).len();
    let with_others = answers.iter().filter(|answer| others(answer) > 0);
    let nodes: Vec<&str> = with_others.map(Answer::node).collect();
    let count: usize = answers.iter().map(|answer| others(&answer)).sum();
    (count > 0).then(|| {
        format!(
            "{count} more on {}, in words of another version: use the plugin of its version, or -o json",
            names(&nodes)
        )
    })
}

/// One row for each kind, the latest first, with the nodes that count it.
fn text(answers: &[Answer<Drops>], narrowed: bool) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let mut kinds: BTreeMap<Kind, (Dropped, Vec<&str>)> = BTreeMap::new();
    for answer in answers {
        for dropped in known(answer) {
            match kinds.get_mut(&dropped.kind) {
                Some((sum, nodes)) => {
                    add(sum, &dropped);
                    nodes.push(answer.node());
                }
                None => drop(kinds.insert(dropped.kind.clone(), (dropped, vec![answer.node()]))),
            }
        }
    }
    let mut rows: Vec<_> = kinds.into_values().collect();
    rows.sort_by_key(|(dropped, _)| dropped.last_ms_ago);
    let (drops, nodes): (Vec<Dropped>, Vec<String>) =
        rows.into_iter().map(|(dropped, nodes)| (dropped, names(&nodes))).unzip();
    let others = left_out(answers);
    let table = (others.is_none() || !drops.is_empty()).then(|| table(&drops, Some(&nodes), narrowed));
    table.into_iter().chain(others).collect::<Vec<_>>().join("\n\n")
}

fn add(sum: &mut Dropped, other: &Dropped) {
    sum.packets = sum.packets.saturating_add(other.packets);
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.openings = sum.openings.saturating_add(other.openings);
    sum.first_ms_ago = sum.first_ms_ago.max(other.first_ms_ago);
    sum.last_ms_ago = sum.last_ms_ago.min(other.last_ms_ago);
    for client in &other.clients {
        if sum.clients.len() < CLIENTS && !sum.clients.contains(client) {
            sum.clients.push(*client);
        }
    }
}

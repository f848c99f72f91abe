//! `kubectl epguard drops`: denied flows of all nodes, or new ones as they come.

use super::agents::Fleet;
use super::ask::{self, Answer, Asked, UNKNOWN};
use super::nodes::names;
use super::scope::{Form, Scope};
use crate::commands::drops::{Follower, table, text_line};
use crate::shared::args::{one_of, service};
use crate::shared::drops::{Dropped, Kind};
use crate::shared::output::{complain, escaped, is_read, print};
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
type Drops = Vec<Value>;

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &DropsArgs) -> Result<ExitCode> {
    let mut command = vec!["drops"];
    let filters = [
        ("--namespace", scope.namespace.as_deref()),
        ("--service", args.service.as_deref()),
        ("--reason", args.reason.map(Reason::as_str)),
    ];
    for (flag, value) in filters {
        command.extend(value.iter().flat_map(|value| [flag, value]));
    }
    let fleet = Fleet::find(scope).await?;
    if args.follow {
        return follow(fleet, &command).await;
    }
    let asked = ask::ask(&fleet, &command, ask::PATIENCE, None).await;
    let narrowed = command.len() > 1;
    asked.print(scope.output, &(), |answers| text(answers, narrowed))
}

/// Prints what is new, until interrupted or until its reader has left. Nodes that do not answer are named once on standard error. What
/// they deny meanwhile is shown once they answer: agents count it. Errors: the output fails.
async fn follow(mut fleet: Fleet, command: &[&str]) -> Result<ExitCode> {
    let (begun, form) = (Instant::now(), fleet.scope.output);
    let mut followers: BTreeMap<String, Follower> = BTreeMap::new();
    let (mut named, mut unlisted) = (BTreeSet::new(), None);
    loop {
        let asked: Asked<Drops> = ask::ask(&fleet, command, ask::PATIENCE, None).await;
        let mut lost: BTreeSet<String> = asked.absent().lines().map(str::to_owned).collect();
        lost.extend(left_out(&asked.answers).filter(|_| form.is_for_people()).into_iter().chain(unlisted));
        for answer in &asked.answers {
            let follower = followers.entry(answer.node().to_owned());
            let follower = follower.or_insert_with(|| Follower::since(begun));
            for new in follower.new_of(&answer.known) {
                line(answer.node(), new, form).map_or(Ok(()), |line| print(&line))?;
            }
        }
        lost.difference(&named).for_each(|line| complain(&format!("epguard: {line}")));
        named = lost;
        if followers.is_empty() {
            return Ok(UNKNOWN.into());
        }
        sleep(PACE).await;
        if !is_read() {
            return Ok(ExitCode::SUCCESS);
        }
        let listed = fleet.refresh(followers.keys().cloned().collect()).await;
        unlisted = listed.err().map(|error| format!("{error:#}"));
    }
}

/// An entry with its node; none for one that this version does not know, unless it is for programs.
fn line(node: &str, mut entry: Value, form: Form) -> Option<String> {
    if form.is_for_people() {
        return known(&entry).map(|dropped| format!("{node}: {}", text_line(&dropped)));
    }
    entry["node"] = node.into();
    Some(escaped(entry.to_string()))
}

fn known(entry: &Value) -> Option<Dropped> {
    serde_json::from_value(entry.clone()).ok()
}

/// How many entries are not shown; none if all are.
fn left_out(answers: &[Answer<Drops>]) -> Option<String> {
    let others = |answer: &Answer<Drops>| answer.known.iter().filter(|entry| known(entry).is_none()).count();
    let with_others = answers.iter().map(|answer| (answer.node(), others(answer)));
    let (nodes, counts): (Vec<&str>, Vec<usize>) = with_others.filter(|(_, count)| *count > 0).unzip();
    (!nodes.is_empty()).then(|| {
        format!(
            "{} more on {}, in words of another version: use the plugin of its version, or -o json",
            counts.iter().sum::<usize>(),
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
        for dropped in answer.known.iter().filter_map(known) {
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

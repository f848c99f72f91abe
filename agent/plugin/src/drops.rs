//! `kubectl epguard drops`: denied flows of all nodes, or new ones as they come.

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, UNKNOWN, name_nodes};
use super::ask::{PATIENCE, ask_nodes, command_line};
use anyhow::Result;
use clap::Args;
use epguard_client::answers::drops::{DropsFilter, DropsRow, Follower, drops_text, line_of};
use epguard_client::shared::drops::{CLIENTS, Dropped, Kind};
use epguard_client::shared::output::{complain, count, escaped, is_read, print};
use epguard_common::Reason;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time between two requests to all nodes.
const PACE: Duration = Duration::from_secs(2);

/// How the commands begin that people may type next.
const PROGRAM: &str = "kubectl epguard";

/// Options of `kubectl epguard drops`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --timeout it waits 5 s for each node, and 30 s for each answer of the API \
server.

Examples:
  kubectl epguard drops               since each agent's start
  kubectl epguard drops -f -n shop    new ones, of one namespace's Services
  kubectl epguard drops --node worker-1 --reason reused -o json")]
pub struct FleetDropsArgs {
    /// Ask all nodes every 2 seconds until interrupted, and print new denials
    #[arg(short, long)]
    pub follow: bool,
    /// Which denials.
    #[command(flatten)]
    pub filter: DropsFilter,
}

/// Asks and prints. Errors: the output fails.
pub async fn run(fleet: Fleet, args: &FleetDropsArgs) -> Result<ExitCode> {
    let filter = &args.filter;
    let reason = ("--reason", filter.reason.map(Reason::as_str));
    let command = command_line(
        &["drops"],
        &[&filter.services.flags()[..], &[reason]].concat(),
    );
    if args.follow {
        return follow(fleet, &command).await;
    }
    let asked = ask_nodes(&fleet, &command, PATIENCE).await;
    asked.print(fleet.scope.output, Value::Null, |answers| match answers {
        [] => String::new(),
        answers => drops_text(
            &merge_kinds(answers),
            filter.is_narrowed(),
            fleet.scope.screen(),
            PROGRAM,
        ),
    })
}

/// Prints what is new, until interrupted or until its reader has left. How many nodes answer is
/// shown once on standard error, and those that do not are named there once. What they deny meanwhile is shown once they answer: agents count
/// it. Errors: the output fails.
async fn follow(mut fleet: Fleet, command: &[&str]) -> Result<ExitCode> {
    let begun = Instant::now();
    let mut followers: BTreeMap<String, Follower> = BTreeMap::new();
    let mut reported = BTreeSet::new();
    let mut list_error = None;
    loop {
        let asked: FleetAnswers<Vec<Dropped>> = ask_nodes(&fleet, command, PATIENCE).await;
        let mut lost: BTreeSet<String> = asked.absent().lines().map(str::to_owned).collect();
        lost.extend(list_error);
        for NodeAnswer { agent, known, .. } in asked.answers {
            let follower = followers
                .entry(agent.node.clone())
                .or_insert_with(|| Follower::since(begun));
            for new in follower.take_new(known) {
                if fleet.scope.output.is_for_people() {
                    print(&format!("{}: {}", agent.node, line_of(&new)))?;
                } else {
                    let mut entry = json!(new);
                    entry["node"] = json!(agent.node);
                    print(&escaped(entry.to_string()))?;
                }
            }
        }
        for line in lost.difference(&reported) {
            complain(&format!("epguard: {line}"));
        }
        reported = lost;
        if followers.is_empty() {
            return Ok(UNKNOWN.into());
        }
        if fleet.shows_progress {
            complain(&format!("watching {}", count(followers.len(), "node")));
            // From now on the terminal belongs to the denials.
            fleet.shows_progress = false;
        }
        sleep(PACE).await;
        if !is_read() {
            return Ok(ExitCode::SUCCESS);
        }
        let listed = fleet.refresh(followers.keys().cloned().collect()).await;
        list_error = listed.err().map(|error| format!("{error:#}"));
    }
}

/// One row for each kind, the latest first, with the nodes that count it.
fn merge_kinds(answers: &[NodeAnswer<Vec<Dropped>>]) -> Vec<DropsRow> {
    let mut kinds: BTreeMap<&Kind, (Dropped, Vec<&str>)> = BTreeMap::new();
    for answer in answers {
        for dropped in &answer.known {
            if let Some((sum, nodes)) = kinds.get_mut(&dropped.kind) {
                add_counts(sum, dropped);
                nodes.push(answer.node());
            } else {
                kinds.insert(&dropped.kind, (dropped.clone(), vec![answer.node()]));
            }
        }
    }
    let mut rows = Vec::new();
    for (dropped, nodes) in kinds.into_values() {
        rows.push(DropsRow {
            dropped,
            nodes: name_nodes(&nodes),
        });
    }
    rows.sort_by_key(|row| row.dropped.last_ms_ago);
    rows
}

fn add_counts(sum: &mut Dropped, other: &Dropped) {
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

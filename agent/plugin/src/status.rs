//! `kubectl epguard status`: a line for each node, then problems with their remedies, and how nodes
//! differ.

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, group_by_value, join_parts, name_nodes};
use super::ask::{PATIENCE, ask_nodes};
use super::scope::FleetOutput;
use anyhow::Result;
use epguard_client::answers::status::{BAD, Condition, GOOD, bullet, lease_text};
use epguard_client::shared::output::{Column, columned, count, seconds};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Below the options.
pub const HELP: &str = "\
Exit code: 0 all is well, 1 a node is degraded or has no agent, 2 a node did not answer.

Examples:
  kubectl epguard status                      every node in a line, then problems, each with its remedy
  kubectl epguard status --node worker-1      all about one node
  kubectl epguard status -l pool=edge -o wide";

/// The answer of a node.
type StatusAnswer = NodeAnswer<Condition>;

const COLUMNS: [Column<StatusAnswer>; 12] = [
    ("NODE", |answer| answer.agent.node.clone()),
    ("MODE", |answer| answer.known.status.mode_name().to_owned()),
    ("BY", |answer| answer.known.status.mode_source.to_string()),
    ("VERSION", |answer| answer.known.status.version.clone()),
    ("VIEW", |answer| {
        answer
            .known
            .status
            .view_age_ms
            .map_or_else(|| "unknown".to_owned(), seconds)
    }),
    ("DENIED", |answer| {
        answer.known.status.denied_ips().to_string()
    }),
    ("WRONG DENIES", |answer| {
        answer
            .known
            .status
            .wrong_denies
            .values()
            .sum::<u64>()
            .to_string()
    }),
    ("PROBLEMS", |answer| answer.known.problems.len().to_string()),
    ("LEASE", |answer| lease_text(&answer.known.status)),
    ("INTERFACES", |answer| {
        let all = &answer.known.status.interfaces;
        format!(
            "{} of {}",
            all.iter().filter(|at| at.attached).count(),
            all.len()
        )
    }),
    ("KERNEL", |answer| answer.known.status.kernel.clone()),
    ("POD", |answer| answer.agent.pod.clone()),
];
/// How many of these are shown without `-o wide`.
const NARROW: usize = 8;

/// Things that are not the same on all nodes, as may be meant during an upgrade: each value with
/// its nodes, the most frequent first.
type Differences = BTreeMap<&'static str, Vec<(String, Vec<String>)>>;

/// A thing of a node, as text.
type Thing<'a> = &'a dyn Fn(&StatusAnswer) -> String;

/// Asks, prints, and returns the exit code. Errors: the output fails.
pub async fn run(fleet: &Fleet) -> Result<ExitCode> {
    let scope = &fleet.scope;
    let asked: FleetAnswers<Condition> = ask_nodes(fleet, &["status"], PATIENCE).await;
    if scope.nodes.len() == 1 && scope.output == FleetOutput::Table {
        // One node, as its own command shows it.
        return asked.print(scope.output, Value::Null, |answers| {
            answers
                .iter()
                .map(|answer| answer.known.to_text())
                .collect()
        });
    }
    let differences = differences(&asked.answers);
    let list_error = fleet.without_agent.as_ref().err();
    let more = json!({"differences": differences, "notCompared": list_error});
    let columns = if scope.output == FleetOutput::Wide {
        &COLUMNS[..]
    } else {
        &COLUMNS[..NARROW]
    };
    asked.print(scope.output, more, |answers| {
        let mut parts = vec![headline(&asked)];
        if !answers.is_empty() {
            parts.push(columned(columns, answers));
        }
        parts.push(problem_lines(answers).join("\n"));
        let mut lines = difference_lines(&differences);
        if let Some(why) = list_error {
            lines.push(format!("not compared: nodes without an agent: {why}"));
        }
        parts.push(lines.join("\n"));
        join_parts(parts)
    })?;
    let is_degraded = !asked.without_agent.is_empty();
    Ok(asked.code().max(u8::from(is_degraded)).into())
}

/// A line for each thing that is not the same on all nodes.
fn difference_lines(differences: &Differences) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, values) in differences {
        let values: Vec<String> = values
            .iter()
            .map(|(value, nodes)| format!("{value} on {}", name_nodes(nodes)))
            .collect();
        lines.push(format!("  different {what}: {}", values.join("; ")));
    }
    lines
}

fn headline(asked: &FleetAnswers<Condition>) -> String {
    let well = asked
        .answers
        .iter()
        .filter(|answer| answer.known.problems.is_empty())
        .count();
    let counts = [
        (well, "well"),
        (asked.answers.len() - well, "degraded"),
        (asked.missing.len(), "without an answer"),
        (asked.without_agent.len(), "without an agent"),
    ];
    let nodes = count(
        counts.iter().map(|(count, _)| count).sum::<usize>() as u64,
        "node",
    );
    if let [_, (0, _), (0, _), (0, _)] = counts {
        return format!("{nodes}: {GOOD}all is well{GOOD:#}");
    }
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    format!("{nodes}: {BAD}{}{BAD:#}", counts.join(", "))
}

/// Each problem once, with all nodes that have it.
fn problem_lines(answers: &[StatusAnswer]) -> Vec<String> {
    let mut problems = Vec::new();
    for answer in answers {
        for problem in &answer.known.problems {
            problems.push((problem, answer.node()));
        }
    }
    group_by_value(problems)
        .into_iter()
        .map(|(problem, nodes)| bullet(&format!("{}: ", name_nodes(&nodes)), problem))
        .collect()
}

/// What is not the same on all nodes. Of flags, only those count that not all have.
fn differences(answers: &[StatusAnswer]) -> Differences {
    let all = answers
        .iter()
        .map(|answer| answer.agent.flags.iter().collect::<BTreeSet<_>>());
    let common = all
        .reduce(|common, flags| &common & &flags)
        .unwrap_or_default();
    let flags = |answer: &StatusAnswer| {
        let mut differing = Vec::new();
        for flag in &answer.agent.flags {
            if !common.contains(flag) {
                differing.push(flag.as_str());
            }
        }
        differing.join(" ")
    };
    let things: [(&str, Thing<'_>); 5] = [
        ("mode", &|answer| answer.known.status.mode_name().to_owned()),
        ("version", &|answer| answer.known.status.version.clone()),
        ("flags", &flags),
        ("mode policy", &|answer| {
            answer.agent.mode_policy.clone().unwrap_or_default()
        }),
        ("kernel", &|answer| answer.known.status.kernel.clone()),
    ];
    let mut differences = Differences::new();
    for (what, value_of) in things {
        let values = answers
            .iter()
            .map(|answer| (value_of(answer), answer.node()));
        let mut groups = group_by_value(values);
        if groups.len() < 2 {
            continue;
        }
        groups.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
        let mut shown = Vec::new();
        for (value, nodes) in groups {
            let value = if value.is_empty() {
                "none".to_owned()
            } else {
                value
            };
            shown.push((value, nodes.into_iter().map(str::to_owned).collect()));
        }
        differences.insert(what, shown);
    }
    differences
}

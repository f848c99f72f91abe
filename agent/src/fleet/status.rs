//! `kubectl epguard status`: a line for each node, then problems with their remedies, and how nodes
//! differ.

use super::agents::Fleet;
use super::ask::{self, Answer, Asked, grouped, names};
use super::scope::Form;
use crate::commands::status::{BAD, Condition, GOOD, bullet, lease};
use crate::shared::output::{Column, columned, count, seconds};
use anyhow::Result;
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
type Of = Answer<Condition>;

const COLUMNS: [Column<Of>; 12] = [
    ("NODE", |of| of.agent.node.clone()),
    ("MODE", |of| of.known.status.mode_name().to_owned()),
    ("BY", |of| of.known.status.mode_source.to_string()),
    ("VERSION", |of| of.known.status.version.clone()),
    ("VIEW", |of| {
        of.known
            .status
            .view_age_ms
            .map_or_else(|| "unknown".to_owned(), seconds)
    }),
    ("DENIED", |of| of.known.status.denied_ips().to_string()),
    ("WRONG DENIES", |of| {
        of.known
            .status
            .wrong_denies
            .values()
            .sum::<u64>()
            .to_string()
    }),
    ("PROBLEMS", |of| of.known.problems.len().to_string()),
    ("LEASE", |of| lease(&of.known.status)),
    ("INTERFACES", |of| {
        let all = &of.known.status.interfaces;
        format!(
            "{} of {}",
            all.iter().filter(|at| at.attached).count(),
            all.len()
        )
    }),
    ("KERNEL", |of| of.known.status.kernel.clone()),
    ("POD", |of| of.agent.pod.clone()),
];
/// How many of these are shown without `-o wide`.
const NARROW: usize = 8;

/// Things that are not the same on all nodes, as may be meant during an upgrade: each value with
/// its nodes, the most frequent first.
type Differences = BTreeMap<&'static str, Vec<(String, Vec<String>)>>;

/// A thing of a node, as text.
type Thing<'a> = &'a dyn Fn(&Of) -> String;

/// Asks, prints, and returns the exit code. Errors: the output fails.
pub async fn run(fleet: &Fleet) -> Result<ExitCode> {
    let scope = &fleet.scope;
    let asked: Asked<Condition> = ask::ask(fleet, &["status"], ask::PATIENCE).await;
    if scope.nodes.len() == 1 && scope.output == Form::Table {
        // One node, as its own command shows it.
        return asked.print(scope.output, Value::Null, |answers| {
            answers.iter().map(|answer| answer.known.text()).collect()
        });
    }
    let (differences, unlisted) = (
        differences(&asked.answers),
        fleet.without_agent.as_ref().err(),
    );
    let more = json!({"differences": differences, "notCompared": unlisted});
    asked.print(scope.output, more, |_| {
        let columns = if scope.output == Form::Wide {
            &COLUMNS[..]
        } else {
            &COLUMNS[..NARROW]
        };
        let table = (!asked.answers.is_empty()).then(|| columned(columns, &asked.answers));
        let unlisted = unlisted.map(|why| format!("not compared: nodes without an agent: {why}"));
        let different = differences.iter().map(|(what, values)| {
            let values = values
                .iter()
                .map(|(value, nodes)| format!("{value} on {}", names(nodes)));
            format!(
                "  different {what}: {}",
                values.collect::<Vec<_>>().join("; ")
            )
        });
        let lines: Vec<String> = different.chain(unlisted).collect();
        let below = [problems(&asked.answers), lines].map(|lines| lines.join("\n"));
        let parts = [headline(&asked)].into_iter().chain(table).chain(below);
        parts
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n")
    })?;
    Ok(asked
        .code()
        .max(u8::from(!asked.without_agent.is_empty()))
        .into())
}

fn headline(asked: &Asked<Condition>) -> String {
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
fn problems(answers: &[Of]) -> Vec<String> {
    let of = answers.iter().flat_map(|of| {
        of.known
            .problems
            .iter()
            .map(move |problem| (problem, of.node()))
    });
    let grouped = grouped(of).into_iter();
    grouped
        .map(|(problem, nodes)| bullet(&format!("{}: ", names(&nodes)), problem))
        .collect()
}

/// What is not the same on all nodes. Of flags, only those count that not all have.
fn differences(answers: &[Of]) -> Differences {
    let all = answers
        .iter()
        .map(|answer| answer.agent.flags.iter().collect::<BTreeSet<_>>());
    let common = all
        .reduce(|common, flags| &common & &flags)
        .unwrap_or_default();
    let flags = |of: &Of| {
        let own = of.agent.flags.iter().filter(|flag| !common.contains(flag));
        own.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let things: [(&str, Thing<'_>); 5] = [
        ("mode", &|of| of.known.status.mode_name().to_owned()),
        ("version", &|of| of.known.status.version.clone()),
        ("flags", &flags),
        ("mode policy", &|of| {
            of.agent.mode_policy.clone().unwrap_or_default()
        }),
        ("kernel", &|of| of.known.status.kernel.clone()),
    ];
    let differences = things.into_iter().map(|(what, value)| {
        let mut groups = grouped(answers.iter().map(|answer| (value(answer), answer.node())));
        groups.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
        let values = groups.into_iter().map(|(value, nodes)| {
            let value = if value.is_empty() {
                "none".to_owned()
            } else {
                value
            };
            (value, nodes.into_iter().map(Into::into).collect())
        });
        (what, values.collect::<Vec<_>>())
    });
    differences.filter(|(_, values)| values.len() > 1).collect()
}

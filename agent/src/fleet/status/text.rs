//! The status of all nodes, for people.

use super::compare::{Comparison, Difference, Of};
use crate::commands::status::{BAD, Condition, GOOD, Problem, bullet, lease};
use crate::fleet::ask::Asked;
use crate::fleet::nodes::{grouped, names};
use crate::shared::output::{count, table};
use crate::shared::status::Status;
use epguard_core::state::IpState;

const HEADER: [&str; 12] = [
    "NODE",
    "MODE",
    "BY",
    "VERSION",
    "VIEW",
    "DENIED",
    "WRONG DENIES",
    "PROBLEMS",
    "LEASE",
    "INTERFACES",
    "KERNEL",
    "POD",
];
/// How many of these are shown without `-o wide`.
const NARROW: usize = 8;

/// The whole text, with colours; the caller removes them for a pipe.
pub fn text(asked: &Asked<Condition>, comparison: &Comparison, is_wide: bool) -> String {
    let answers = &asked.answers;
    let mut parts = vec![headline(answers, asked.missing.len(), comparison)];
    if !answers.is_empty() {
        let columns = if is_wide { HEADER.len() } else { NARROW };
        parts.push(table(&HEADER[..columns], answers.iter().map(|answer| row(answer)[..columns].into())));
    }
    let differences = comparison.differences.iter().map(difference);
    let not_compared = comparison.not_compared.iter();
    let not_compared = not_compared.map(|what| format!("not compared: {what}"));
    let lines = [problems(answers, comparison), differences.collect(), not_compared.collect()];
    let lines = lines.into_iter().filter(|lines: &Vec<String>| !lines.is_empty());
    parts.extend(lines.map(|lines| lines.join("\n")));
    parts.join("\n\n")
}

fn headline(answers: &[Of], missing: usize, comparison: &Comparison) -> String {
    let is_degraded = |answer: &&Of| !answer.known.problems.is_empty();
    let degraded = answers.iter().filter(is_degraded).count();
    let nodes = count(answers.len() + missing, "node");
    if degraded == 0 && missing == 0 && comparison.problems.is_empty() {
        return format!("{nodes}: {GOOD}all is well{GOOD:#}");
    }
    let counts = [(answers.len() - degraded, "well"), (degraded, "degraded"), (missing, "without an answer")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, how)| format!("{count} {how}")).collect();
    let more = match comparison.problems.len() {
        0 => String::new(),
        some => format!("; {} of the cluster", count(some, "problem")),
    };
    format!("{nodes}: {BAD}{}{more}{BAD:#}", counts.join(", "))
}

fn row(answer: &Of) -> [String; HEADER.len()] {
    let Condition { status, problems } = &answer.known;
    let unknown = || "unknown".to_owned();
    let attached = status.interfaces.iter().filter(|at| at.attached).count();
    [
        answer.node().to_owned(),
        status.mode_name().to_owned(),
        status.mode_source.to_string(),
        status.version.clone(),
        status.view_age_ms.map_or_else(unknown, |ms| format!("{} s", ms / 1000)),
        denied(status).to_string(),
        status.wrong_denies.values().sum::<u64>().to_string(),
        problems.len().to_string(),
        lease(status),
        format!("{attached} of {}", status.interfaces.len()),
        Some(&status.kernel).filter(|kernel| !kernel.is_empty()).cloned().unwrap_or_else(unknown),
        answer.agent.pod.clone(),
    ]
}

/// IPs that packets are denied to, or would be.
fn denied(status: &Status) -> u64 {
    let denials = [IpState::Denied, IpState::Terminated];
    let counts = denials.iter().filter_map(|state| status.figures.ips.get(state));
    counts.sum()
}

/// Each problem once, with all nodes that have it; those of the cluster first.
fn problems(answers: &[Of], comparison: &Comparison) -> Vec<String> {
    let of_cluster = comparison.problems.iter().map(|problem| bullet("", problem));
    let of = |answer| {
        let answer: &Of = answer;
        answer.known.problems.iter().map(|problem| (problem, answer.node()))
    };
    let of_nodes = grouped::<&Problem>(answers.iter().flat_map(of)).into_iter();
    let of_nodes = of_nodes.map(|(problem, nodes)| bullet(&format!("{}: ", names(&nodes)), problem));
    of_cluster.chain(of_nodes).collect()
}

fn difference(difference: &Difference) -> String {
    let values = difference.values.iter().map(|(value, nodes)| {
        let value = if value.is_empty() { "none of these" } else { value };
        format!("{value} on {}", names(nodes))
    });
    let values: Vec<String> = values.collect();
    format!("  different {}: {}", difference.what, values.join("; "))
}

//! The status of all nodes, for people.

use super::cluster::Cluster;
use super::compare::{Comparison, Difference};
use crate::commands::status::{BAD, Condition, GOOD, Problem, bullet, lease};
use crate::fleet::ask::Answer;
use crate::fleet::missing::names;
use crate::shared::output::{count, table};
use crate::shared::status::Status;
use epguard_core::state::IpState;

/// The whole text, with colours; the caller removes them for a pipe. With a cluster, more columns.
pub fn text(
    answers: &[Answer<Condition>],
    missing: usize,
    comparison: &Comparison,
    wide: Option<&Cluster>,
) -> String {
    let mut parts = vec![headline(answers, missing, comparison)];
    if !answers.is_empty() {
        parts.push(nodes(answers, wide));
    }
    let problems = problems(answers, comparison);
    let differences = comparison.differences.iter().map(difference);
    let not_compared = comparison
        .not_compared
        .iter()
        .map(|what| format!("not compared: {what}"));
    let lines = [problems, differences.collect(), not_compared.collect()];
    let lines = lines.into_iter().filter(|lines| !lines.is_empty());
    parts.extend(lines.map(|lines| lines.join("\n")));
    parts.join("\n\n")
}

fn headline(answers: &[Answer<Condition>], missing: usize, comparison: &Comparison) -> String {
    let degraded = answers
        .iter()
        .filter(|answer| !answer.value.problems.is_empty())
        .count();
    let nodes = count(answers.len() + missing, "node");
    if degraded == 0 && missing == 0 && comparison.problems.is_empty() {
        return format!("{nodes}: {GOOD}all is well{GOOD:#}");
    }
    let counts = [
        (answers.len() - degraded, "well"),
        (degraded, "degraded"),
        (missing, "without an answer"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, how)| format!("{count} {how}")).collect();
    let more = match comparison.problems.len() {
        0 => String::new(),
        some => format!("; {} of the cluster", count(some, "problem")),
    };
    format!("{nodes}: {BAD}{}{more}{BAD:#}", counts.join(", "))
}

fn nodes(answers: &[Answer<Condition>], wide: Option<&Cluster>) -> String {
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
    let columns = if wide.is_some() { 12 } else { 8 };
    let lines = answers.iter().map(|Answer { agent, value, .. }| {
        let status = &value.status;
        let mut cells = vec![
            agent.node.clone(),
            status.mode_name().to_owned(),
            status.mode_source.to_string(),
            status.version.clone(),
            status
                .view_age_ms
                .map_or("unknown".to_owned(), |ms| format!("{} s", ms / 1000)),
            denied(status).to_string(),
            status.wrong_denies.values().sum::<u64>().to_string(),
            value.problems.len().to_string(),
        ];
        if let Some(cluster) = wide {
            let attached = status.interfaces.iter().filter(|at| at.attached).count();
            let kernel = cluster.kernel(&agent.node);
            cells.extend([
                lease(status),
                format!("{attached} of {}", status.interfaces.len()),
                kernel.unwrap_or_else(|| "unknown".to_owned()),
                agent.pod.clone(),
            ]);
        }
        cells
    });
    table(&HEADER[..columns], lines)
}

/// IPs that packets are denied to, or would be.
fn denied(status: &Status) -> u64 {
    let denials = [IpState::Denied, IpState::Terminated];
    let counts = denials.iter().filter_map(|state| status.figures.ips.get(state));
    counts.sum()
}

/// Each problem once, with all nodes that have it; those of the cluster first.
fn problems(answers: &[Answer<Condition>], comparison: &Comparison) -> Vec<String> {
    let mut found: Vec<(&Problem, Vec<&str>)> = Vec::new();
    found.extend(comparison.problems.iter().map(|problem| (problem, Vec::new())));
    for Answer { agent, value, .. } in answers {
        for problem in &value.problems {
            match found.iter_mut().find(|(other, _)| *other == problem) {
                Some((_, nodes)) => nodes.push(&agent.node),
                None => found.push((problem, vec![&agent.node])),
            }
        }
    }
    let lines = found.iter().map(|(problem, nodes)| {
        let place = match &nodes[..] {
            [] => String::new(),
            nodes => format!("{}: ", names(nodes)),
        };
        bullet(&place, problem)
    });
    lines.collect()
}

fn difference(difference: &Difference) -> String {
    let values = difference.values.iter().map(|(value, nodes)| {
        let value = if value.is_empty() { "none of these" } else { value };
        format!("{value} on {}", names(nodes))
    });
    let values: Vec<String> = values.collect();
    format!("  different {}: {}", difference.what, values.join("; "))
}

//! How many nodes are well, and what they run.

use crate::agents::Lack;
use crate::answers::StatusAnswer;
use crate::answers::{FleetAnswers, group_by_value};
use epguard_client::answers::status::Condition;
use epguard_client::shared::output::count;
use epguard_client::shared::screen::{BAD, GOOD};
use epguard_client::shared::status::ModeSource;
use std::cmp::Reverse;

/// Two lines: the states of the nodes; their versions and modes.
pub fn headline(asked: &FleetAnswers<Condition>) -> String {
    let states = states(asked);
    if asked.answers.is_empty() {
        return states;
    }
    let versions = shares(&asked.answers, |answer| answer.known.status.version.clone());
    let modes = shares(&asked.answers, mode);
    format!("{states}\nepguard {versions}; {modes}")
}

fn states(asked: &FleetAnswers<Condition>) -> String {
    let well = asked
        .answers
        .iter()
        .filter(|answer| answer.known.problems.is_empty())
        .count();
    // Nodes that the flags choose are missing, also without an agent.
    let chosen = asked
        .missing
        .iter()
        .filter(|one| one.lack == Lack::Agent)
        .count();
    let counts = [
        (well, "well"),
        (asked.answers.len() - well, "degraded"),
        (asked.missing.len() - chosen, "without an answer"),
        (asked.without_agent.len() + chosen, "without an agent"),
    ];
    let nodes = count(counts.iter().map(|(count, _)| count).sum::<usize>(), "node");
    if let [_, (0, _), (0, _), (0, _)] = counts {
        return format!("{nodes}: {GOOD}all is well{GOOD:#}");
    }
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    format!("{nodes}: {BAD}{}{BAD:#}", counts.join(", "))
}

fn mode(answer: &StatusAnswer) -> String {
    let status = &answer.known.status;
    let canary = if status.mode_source == ModeSource::Canary {
        " (canary)"
    } else {
        ""
    };
    format!("{}{canary}", status.mode_name())
}

/// Each value with its number of nodes, the most frequent first: `observe on 497, enforce on 3`.
/// One that all have stands alone.
fn shares(answers: &[StatusAnswer], value_of: fn(&StatusAnswer) -> String) -> String {
    let values = answers
        .iter()
        .map(|answer| (value_of(answer), answer.node()));
    let mut groups = group_by_value(values);
    groups.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
    if let [(value, _)] = &groups[..] {
        return value.clone();
    }
    let shares: Vec<String> = groups
        .iter()
        .map(|(value, nodes)| format!("{value} on {}", nodes.len()))
        .collect();
    shares.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agent, agents};
    use super::*;
    use clap::builder::StyledStr;
    use epguard_common::Mode;

    fn shown(answers: Vec<StatusAnswer>) -> String {
        let asked = FleetAnswers {
            answers,
            missing: vec![],
            without_agent: vec![],
        };
        StyledStr::from(headline(&asked)).to_string()
    }

    #[test]
    fn states_versions_and_modes_are_counted() {
        assert_eq!(
            shown(agents(3)),
            "3 nodes: all is well\nepguard 0.1.0; observe"
        );
        let mut all = agents(4);
        let mut canary = agent(5, &["p"]);
        canary.known.status.mode = Some(Mode::Enforce);
        canary.known.status.mode_source = ModeSource::Canary;
        canary.known.status.version = "0.2.0".into();
        all.insert(0, canary);
        assert_eq!(
            shown(all),
            "5 nodes: 4 well, 1 degraded\nepguard 0.1.0 on 4, 0.2.0 on 1; observe on 4, enforce (canary) on 1"
        );
    }
}

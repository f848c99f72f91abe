//! How the nodes of a cluster differ. Pure.

use crate::commands::status::{Condition, Problem};
use crate::fleet::agents::Labelled;
use crate::fleet::ask::Answer;
use crate::fleet::modes::{Policy, deviation};
use crate::fleet::nodes::{grouped, names};
use crate::shared::status::ModeSource;
use anyhow::Result;
use kube::{Resource as _, ResourceExt as _};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The label of nodes that `canary-mode` of the `ConfigMap` is for.
const CANARY: &str = "epguard.io/canary";

/// What only the view of all nodes shows.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    /// What keeps epguard from its work on some node.
    pub problems: Vec<Problem>,
    /// Differences that may be meant, as during an upgrade.
    pub differences: Vec<Difference>,
    /// What was not compared, with the cause.
    #[serde(rename = "notCompared")]
    pub not_compared: Vec<String>,
}

/// A thing that is not the same on all nodes.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `version`, `flags`, `ConfigMap of modes` or `kernel`.
    pub what: &'static str,
    /// Each value with its nodes, the most frequent first.
    pub values: Vec<(String, Vec<String>)>,
}

/// The answer of a node.
pub type Of = Answer<Condition>;

/// A thing of a node, as text.
type Value<'a> = &'a dyn Fn(&Of) -> String;

/// Compares all nodes that answered with each other, and with what the API shows.
pub fn compare(
    answers: &[Of],
    without_agent: &[String],
    nodes: &Result<Vec<Labelled>, String>,
    policy: Result<Option<Policy>>,
) -> Comparison {
    let mut compared = Comparison::default();
    let mut unread = |what: &str, why: &str| compared.not_compared.push(format!("{what}: {why}"));
    if let Err(why) = nodes {
        unread("nodes without an agent, and canaries", why);
    }
    let policy = policy.unwrap_or_else(|why| {
        unread("modes with the ConfigMap", &format!("{why:#}"));
        None
    });
    if !without_agent.is_empty() {
        compared.problems.push(Problem::new(
            format!("no agent runs on {}", names(without_agent)),
            "packets pass there: see the Events of the DaemonSet, and its nodeSelector and tolerations",
        ));
    }
    let deviations = policy.iter().flat_map(|policy| deviations(answers, nodes, policy));
    for (deviation, nodes) in grouped(deviations) {
        let are = if nodes.len() == 1 { "is" } else { "are" };
        compared.problems.push(Problem::new(
            format!("{} {are} not in the ConfigMap's modes: {deviation}", names(&nodes)),
            "a mode was set there by hand: `kubectl epguard mode --node NODE MODE` sets it",
        ));
    }
    compared.differences = differences(answers);
    compared
}

/// How nodes differ from the `ConfigMap` that they watch.
fn deviations<'a>(
    answers: &'a [Of],
    nodes: &Result<Vec<Labelled>, String>,
    Policy { name, map }: &Policy,
) -> Vec<(String, &'a str)> {
    let watches = |answer: &&Of| answer.agent.config_map.as_ref() == Some(name);
    let found = map.iter().flat_map(|(_, modes)| {
        answers.iter().filter(watches).filter_map(|answer| {
            let status = &answer.known.status;
            let canary = is_canary(nodes, answer.node(), status.mode_source);
            Some((deviation(modes, status, canary)?, answer.node()))
        })
    });
    found.collect()
}

/// Whether the Node has the label of canaries. The agent only counts where Nodes may not be listed.
fn is_canary(nodes: &Result<Vec<Labelled>, String>, name: &str, by: ModeSource) -> bool {
    let Ok(nodes) = nodes else {
        return by == ModeSource::Canary;
    };
    let is = |node: &Labelled| node.labels().get(CANARY).is_some_and(|is| is == "true");
    nodes.iter().any(|node| node.meta().name.as_deref() == Some(name) && is(node))
}

/// What is not the same on all nodes. Of flags, only those count that not all have.
fn differences(answers: &[Of]) -> Vec<Difference> {
    let mut all = answers.iter().map(|answer| answer.agent.flags.iter().collect::<BTreeSet<_>>());
    let first = all.next().unwrap_or_default();
    let common = all.fold(first, |common, words| &common & &words);
    let flags = |answer: &Of| {
        let words = answer.agent.flags.iter().filter(|word| !common.contains(word));
        words.cloned().collect::<Vec<_>>().join(" ")
    };
    let things: [(&str, Value<'_>); 4] = [
        ("version", &|answer| answer.known.status.version.clone()),
        ("flags", &flags),
        ("ConfigMap of modes", &|answer| {
            answer.agent.config_map.clone().unwrap_or_else(|| "none".to_owned())
        }),
        ("kernel", &|answer| answer.known.status.kernel.clone()),
    ];
    let differences = things.into_iter().filter_map(|(what, value)| {
        let shown = answers.iter().map(|answer| (value(answer), answer.node()));
        let mut groups = grouped(shown.filter(|(value, _)| what == "flags" || !value.is_empty()));
        groups.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
        let values =
            groups.into_iter().map(|(value, nodes)| (value, nodes.into_iter().map(Into::into).collect()));
        let values: Vec<_> = values.collect();
        (values.len() > 1).then_some(Difference { what, values })
    });
    differences.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_label_of_a_node_counts_and_not_its_agents_word() {
        let nodes =
            json!([{"metadata": {"name": "a", "labels": {CANARY: "true"}}}, {"metadata": {"name": "b"}}]);
        let nodes: Vec<Labelled> = serde_json::from_value(nodes).unwrap();
        let is = |name, by| is_canary(&Ok(nodes.clone()), name, by);
        assert!(is("a", ModeSource::Flags) && !is("b", ModeSource::Canary));
        assert!(is_canary(&Err("forbidden".into()), "b", ModeSource::Canary));
    }
}

//! How the nodes of a cluster differ. Pure.

use super::modes::{deviation, is_canary};
use crate::commands::status::{Condition, Problem};
use crate::fleet::ask::{Answer, Document};
use crate::fleet::cluster::Cluster;
use crate::fleet::missing::names;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
pub type Of = Answer<Document<Condition>>;

/// Compares all nodes that answered.
pub fn compare(answers: &[Of], cluster: &Cluster) -> Comparison {
    let mut all = answers.iter().map(|answer| answer.agent.flags.iter().collect::<BTreeSet<_>>());
    let first = all.next().unwrap_or_default();
    let common = all.fold(first, |common, words| &common & &words);
    let flags = |answer: &Of| {
        let words = answer.agent.flags.iter().filter(|word| !common.contains(word));
        Some(words.cloned().collect::<Vec<_>>().join(" "))
    };
    let none = || "none".to_owned();
    let differences = [
        difference("version", answers, |answer| Some(answer.value.known.status.version.clone())),
        difference("flags", answers, flags),
        difference("ConfigMap of modes", answers, |answer| {
            Some(answer.agent.config_map.clone().unwrap_or_else(none))
        }),
        difference("kernel", answers, |answer| cluster.kernel(answer.node())),
    ];
    Comparison {
        problems: problems(answers, cluster),
        differences: differences.into_iter().flatten().collect(),
        not_compared: cluster.unread.clone(),
    }
}

/// Nodes without a pod of the `DaemonSet`, and nodes whose modes are not those of the `ConfigMap`.
fn problems(answers: &[Of], cluster: &Cluster) -> Vec<Problem> {
    let mut nodes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Answer { agent, value, .. } in answers {
        let Some((name, modes)) = &cluster.modes else {
            break;
        };
        let status = &value.known.status;
        let canary = is_canary(cluster.nodes.as_ref(), &agent.node, status);
        let follows = agent.config_map.as_ref() == Some(name);
        if let Some(deviation) = deviation(modes, status, canary).filter(|_| follows) {
            nodes.entry(deviation).or_default().push(&agent.node);
        }
    }
    let by_hand = nodes.iter().map(|(deviation, nodes)| {
        let are = if nodes.len() == 1 { "is" } else { "are" };
        Problem::new(
            format!("{} {are} not in the ConfigMap's modes: {deviation}", names(nodes)),
            "a mode was set there by hand: `kubectl epguard mode --node NODE MODE` sets it",
        )
    });
    let without = (!cluster.without_agent.is_empty()).then(|| {
        Problem::new(
            format!("no agent runs on {}", names(&cluster.without_agent)),
            "packets pass there: see the Events of the DaemonSet, and its nodeSelector and tolerations",
        )
    });
    without.into_iter().chain(by_hand).collect()
}

/// The values of a thing, if nodes differ in it.
fn difference(
    what: &'static str,
    answers: &[Of],
    value: impl Fn(&Of) -> Option<String>,
) -> Option<Difference> {
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for answer in answers {
        if let Some(value) = value(answer) {
            nodes.entry(value).or_default().push(answer.agent.node.clone());
        }
    }
    let mut values: Vec<_> = nodes.into_iter().collect();
    values.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    (values.len() > 1).then_some(Difference { what, values })
}

//! How the nodes of a cluster differ. Pure.

use super::cluster::Cluster;
use super::modes;
use crate::commands::status::{Condition, Problem};
use crate::fleet::agents::Agent;
use crate::fleet::ask::Answer;
use crate::fleet::missing::names;
use crate::shared::status::Status;
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
    /// `version`, `flags`, `ConfigMap of modes`, `kernel` or `programs`.
    pub what: &'static str,
    /// Each value with its nodes, the most frequent first.
    pub values: Vec<(String, Vec<String>)>,
}

/// Compares all nodes that answered.
pub fn compare(answers: &[Answer<Condition>], cluster: &Cluster) -> Comparison {
    let of = |what, value: &dyn Fn(&Answer<Condition>) -> Option<String>| difference(what, answers, value);
    let config_map = |agent: &Agent| agent.config_map.clone().unwrap_or_else(|| "none".to_owned());
    let common = common_words(answers);
    let flags = |answer: &Answer<Condition>| {
        let words = answer
            .agent
            .flags
            .split(' ')
            .filter(|word| !common.contains(word));
        Some(words.collect::<Vec<_>>().join(" "))
    };
    let differences = [
        of("version", &|answer| Some(answer.value.status.version.clone())),
        of("flags", &flags),
        of("ConfigMap of modes", &|answer| Some(config_map(&answer.agent))),
        of("kernel", &|answer| cluster.kernel(&answer.agent.node)),
        of("programs", &|answer| Some(programs(&answer.value.status))),
    ];
    let without_agent = without_agent(cluster).into_iter();
    Comparison {
        problems: without_agent.chain(other_modes(answers, cluster)).collect(),
        differences: differences.into_iter().flatten().collect(),
        not_compared: cluster.unread.clone(),
    }
}

/// Nodes without a pod of the `DaemonSet`.
fn without_agent(cluster: &Cluster) -> Option<Problem> {
    let without = &cluster.without_agent;
    (!without.is_empty()).then(|| {
        Problem::new(
            format!("no agent runs on {}", names(without)),
            "packets pass there: see the Events of the DaemonSet, and its nodeSelector and tolerations",
        )
    })
}

/// Nodes whose modes are not those of the `ConfigMap`.
fn other_modes(answers: &[Answer<Condition>], cluster: &Cluster) -> Vec<Problem> {
    let Some((name, modes)) = &cluster.modes else {
        return Vec::new();
    };
    let mut nodes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let follows = |answer: &&Answer<Condition>| answer.agent.config_map.as_ref() == Some(name);
    let following = answers.iter().filter(follows);
    for Answer { agent, value, .. } in following {
        let canary = modes::is_canary(cluster.nodes.as_ref(), &agent.node, &value.status);
        if let Some(deviation) = modes::deviation(modes, &value.status, canary) {
            nodes.entry(deviation).or_default().push(&agent.node);
        }
    }
    let problems = nodes.iter().map(|(deviation, nodes)| {
        let are = if nodes.len() == 1 { "is" } else { "are" };
        let what = format!("{} {are} not in the ConfigMap's modes: {deviation}", names(nodes));
        Problem::new(
            what,
            "a mode was set there by hand: `kubectl epguard mode --node NODE MODE` sets it",
        )
    });
    problems.collect()
}

/// The values of a thing, if nodes differ in it.
fn difference(
    what: &'static str,
    answers: &[Answer<Condition>],
    value: &dyn Fn(&Answer<Condition>) -> Option<String>,
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

/// Words of image, arguments and environment that all agents have.
fn common_words(answers: &[Answer<Condition>]) -> BTreeSet<&str> {
    let flags = answers.iter().map(|answer| &answer.agent.flags);
    let mut all = flags.map(|flags| flags.split(' ').collect::<BTreeSet<_>>());
    let first = all.next().unwrap_or_default();
    all.fold(first, |common, words| &common & &words)
}

/// Programs that may let packets bypass ours, those of a socket load balancer, and Cilium's maps.
fn programs(status: &Status) -> String {
    let before = status.interfaces.iter().flat_map(|at| &at.before);
    let programs = before
        .chain(&status.translators.cilium)
        .chain(&status.socket_lb.programs);
    // Numbers of programs are those of one node.
    let names = programs.map(|name| name.split(" (id ").next().unwrap_or(name));
    let names: BTreeSet<&str> = names.collect();
    let names: Vec<&str> = names.into_iter().collect();
    names.join(", ")
}

//! What is not the same on all nodes, as may be meant during an upgrade.

use crate::answers::StatusAnswer;
use crate::answers::{group_by_value, name_nodes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Each thing that differs: its values with their nodes, the most frequent first.
pub type Differences = BTreeMap<&'static str, Vec<(String, Vec<String>)>>;

/// A thing of a node, as text.
type Thing<'a> = &'a dyn Fn(&StatusAnswer) -> String;

/// A line for each thing that is not the same on all nodes.
pub fn difference_lines(differences: &Differences) -> Vec<String> {
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

/// What is not the same on all nodes. Of flags, only those count that not all have.
pub fn differences(answers: &[StatusAnswer]) -> Differences {
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

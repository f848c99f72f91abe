//! Nodes that share something, in one line.

use crate::shared::plain::plain;
use serde::Serialize;

/// The most nodes that a line names.
const NAMED: usize = 5;

/// The most characters of a cause that are shown: a node may write it.
const LENGTH: usize = 500;

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// Name of the node.
    pub node: String,
    /// The cause, in one line.
    pub why: String,
}

impl Missing {
    /// A node that has no agent's pod.
    pub fn without_agent(node: String) -> Self {
        Self { node, why: "no agent runs there".to_owned() }
    }

    /// A line for each cause.
    pub fn lines(missing: &[Self]) -> Vec<String> {
        let cut = |why: &str| plain(&why.chars().take(LENGTH).collect::<String>()).into_owned();
        let causes = grouped(missing.iter().map(|one| (cut(&one.why), &*one.node))).into_iter();
        causes.map(|(why, nodes)| format!("no answer from {}: {why}", names(&nodes))).collect()
    }
}

/// Each value once, in the order of its first node, with all of its nodes.
pub fn grouped<'a, T: PartialEq>(all: impl IntoIterator<Item = (T, &'a str)>) -> Vec<(T, Vec<&'a str>)> {
    let mut groups: Vec<(T, Vec<&str>)> = Vec::new();
    for (value, node) in all {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((value, vec![node])),
        }
    }
    groups
}

/// Names nodes, at most [`NAMED`], and counts the others.
pub fn names(nodes: &[impl AsRef<str>]) -> String {
    let nodes: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    if nodes.len() <= NAMED {
        return nodes.join(", ");
    }
    let others = nodes.len() - NAMED + 1;
    format!("{} and {others} others", nodes[..NAMED - 1].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_cause_share_a_line() {
        let missing = |node: usize, why: &str| Missing { node: format!("n{node}"), why: why.into() };
        let mut all: Vec<Missing> = (1..=6).map(|node| missing(node, "no answer within 5 s")).collect();
        all.push(missing(7, "its pod has gone"));
        assert_eq!(
            Missing::lines(&all),
            [
                "no answer from n1, n2, n3, n4 and 2 others: no answer within 5 s",
                "no answer from n7: its pod has gone"
            ]
        );
    }
}

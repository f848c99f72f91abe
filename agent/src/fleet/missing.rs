//! Nodes that did not answer, by cause.

use crate::shared::plain::plain;
use serde::Serialize;

/// The most nodes that a line names.
const NAMED: usize = 5;

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// Its name.
    pub node: String,
    /// The cause.
    pub why: String,
}

impl Missing {
    /// A node without an agent.
    #[must_use]
    pub fn without_agent(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            why: "no agent runs there".to_owned(),
        }
    }
}

/// A line for each cause; empty if every node answered.
#[must_use]
pub fn text(missing: &[Missing]) -> String {
    let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in missing {
        match causes.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, nodes)) => nodes.push(&one.node),
            None => causes.push((&one.why, vec![&one.node])),
        }
    }
    let lines = causes
        .iter()
        .map(|(why, nodes)| format!("no answer from {}: {}", names(nodes), plain(why)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names nodes, at most [`NAMED`], and counts the others.
#[must_use]
pub fn names(nodes: &[&str]) -> String {
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
        let missing = |node: usize, why: &str| Missing {
            node: format!("n{node}"),
            why: why.into(),
        };
        let mut all: Vec<Missing> = (1..=6)
            .map(|node| missing(node, "no answer within 5 s"))
            .collect();
        all.push(missing(7, "its pod has gone"));
        assert_eq!(
            text(&all),
            "no answer from n1, n2, n3, n4 and 2 others: no answer within 5 s\nno answer from n7: its pod has gone"
        );
        assert_eq!(text(&[]), "");
    }
}

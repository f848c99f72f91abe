//! Nodes that did not answer, by cause.

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

/// A line for each cause; empty if every node answered.
pub fn text(missing: &[Missing]) -> String {
    let causes = causes(missing).into_iter();
    let lines = causes.map(|(why, nodes)| format!("no answer from {}: {why}", names(&nodes)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Each cause with its nodes.
fn causes(missing: &[Missing]) -> Vec<(String, Vec<&str>)> {
    let mut causes: Vec<(String, Vec<&str>)> = Vec::new();
    for one in missing {
        let cut: String = one.why.chars().take(LENGTH).collect();
        let why = plain(&cut).into_owned();
        match causes.iter_mut().find(|(known, _)| *known == why) {
            Some((_, nodes)) => nodes.push(&one.node),
            None => causes.push((why, vec![&one.node])),
        }
    }
    causes
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
            text(&all),
            "no answer from n1, n2, n3, n4 and 2 others: no answer within 5 s\nno answer from n7: its pod has gone"
        );
        assert_eq!(text(&[]), "");
    }
}

//! The answers of all nodes, and what is printed of them: a verb's table, or one document.

use super::agents::{Agent, Lack, MissingNode, NO_AGENT_REMEDY};
use super::names::name_at_most;
use super::scope::FleetOutput;
use anyhow::Result;
use epguard_client::answers::status::Condition;
use epguard_client::shared::output::print;
use epguard_client::shared::plain::plain;
use epguard_client::shared::screen::Screen;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Exit code if a node did not answer.
pub const UNKNOWN: u8 = 2;
/// The most nodes that a line names.
const NAMED: usize = 5;
/// The most characters of a cause that are shown: a node may write it.
const LENGTH: usize = 500;

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct NodeAnswer<T> {
    /// The agent that answered.
    pub agent: Agent,
    /// The document that the command printed; for people, each of its texts is plain.
    pub exact: Value,
    /// The same as this version's type.
    pub known: T,
    /// The command's exit code there; 2 for one that no verb has.
    pub code: u8,
}

/// The answer of a node to `status`.
pub type StatusAnswer = NodeAnswer<Condition>;

impl<T> NodeAnswer<T> {
    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.agent.node
    }
}

/// The answers of all nodes that answered, by name, and the others.
#[derive(Debug)]
pub struct FleetAnswers<T> {
    /// Sorted by node.
    pub answers: Vec<NodeAnswer<T>>,
    /// Sorted by node.
    pub missing: Vec<MissingNode>,
    /// Nodes that should have an agent by their labels, and have no pod of one.
    pub without_agent: Vec<String>,
}

impl<T> FleetAnswers<T> {
    /// The exit code of the worst node.
    pub fn code(&self) -> u8 {
        if !self.missing.is_empty() {
            return UNKNOWN;
        }
        self.worst_answer()
    }

    /// The worst exit code of the nodes that answered.
    pub fn worst_answer(&self) -> u8 {
        let codes = self.answers.iter().map(|answer| answer.code);
        codes.max().unwrap_or(0)
    }

    /// The exit code of what is only shown: whether it is known of each node. A degraded node has a
    /// mode, too.
    pub const fn unanswered(&self) -> u8 {
        if self.missing.is_empty() { 0 } else { UNKNOWN }
    }

    /// Whether a node has an agent that did not answer.
    pub fn lacks_answer(&self) -> bool {
        self.missing
            .iter()
            .any(|missing| missing.lack != Lack::Agent)
    }

    /// The nodes that did not answer, and those without an agent, by cause; empty if there are
    /// none.
    pub fn absent(&self) -> String {
        absent_lines(&self.missing, &self.without_agent).join("\n")
    }

    /// Prints the text for people and below it the nodes that did not answer, or the document.
    /// Returns the exit code of the worst node. Errors: the output fails.
    pub fn print(
        &self,
        output: FleetOutput,
        more: Value,
        text: impl FnOnce(&[NodeAnswer<T>]) -> String,
    ) -> Result<ExitCode> {
        self.print_whole(output, more, || {
            let absent = Screen::of_output(false).fold(&self.absent());
            join_parts([text(&self.answers), absent])
        })
    }

    /// The same with a text that has the nodes that did not answer in a place of its own.
    pub fn print_whole(
        &self,
        output: FleetOutput,
        more: Value,
        text: impl FnOnce() -> String,
    ) -> Result<ExitCode> {
        let document = self.document(more);
        print(&output.of_documents().text(&document, |_| text())?)?;
        Ok(self.code().into())
    }

    /// Each node's own document, and `more` that only the cluster shows, an object or nothing.
    pub fn document(&self, more: Value) -> Value {
        let nodes = self.answers.iter().map(|answer| {
            json!({
                "node": answer.node(),
                "pod": answer.agent.pod,
                "answer": answer.exact,
            })
        });
        let mut document = more;
        document["nodes"] = nodes.collect();
        self.add_absent(&mut document);
        document
    }

    /// Adds to a document the nodes that did not answer, and those without an agent, also chosen
    /// ones.
    pub fn add_absent(&self, document: &mut Value) {
        let missing = self.missing.iter();
        let silent: Vec<&MissingNode> = missing.filter(|one| one.lack != Lack::Agent).collect();
        document["missing"] = json!(silent);
        document["withoutAgent"] = json!(without_agent(&self.missing, &self.without_agent));
    }
}

/// A line for each cause why nodes are missing, and one for those without an agent, with the others
/// that have none.
pub fn absent_lines(missing: &[MissingNode], others: &[String]) -> Vec<String> {
    let silent = missing.iter().filter(|one| one.lack != Lack::Agent);
    let causes = silent.map(|one| ((one.lack, short_cause(&one.why)), &*one.node));
    let mut lines = Vec::new();
    for ((lack, cause), nodes) in group_by_value(causes) {
        let names = name_nodes(&nodes);
        lines.push(match lack {
            Lack::Answer => format!("no answer from {names}: {cause}"),
            Lack::Agent | Lack::AgentOrNode => format!("{names}: {cause}"),
        });
    }
    let without = without_agent(missing, others);
    let names = name_nodes(&without);
    let whose = match without[..] {
        [] => return lines,
        [_] => format!("node {names} has"),
        _ => format!("nodes {names} have"),
    };
    lines.push(format!(
        "{whose} no agent, so packets pass there (after an earlier one's lease): {NO_AGENT_REMEDY}"
    ));
    lines
}

/// Names of the missing nodes that have no agent, and of the others that have none.
fn without_agent<'a>(missing: &'a [MissingNode], others: &'a [String]) -> Vec<&'a str> {
    let chosen = missing.iter().filter(|one| one.lack == Lack::Agent);
    let chosen = chosen.map(|one| &*one.node);
    chosen.chain(others.iter().map(String::as_str)).collect()
}

/// A cause in one line; a node may have written it.
pub fn short_cause(why: &str) -> String {
    let short: String = why.chars().take(LENGTH).collect();
    plain(&short).into_owned()
}

/// Parts of a text with an empty line between them; empty parts are left out.
pub fn join_parts(parts: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for part in parts {
        if part.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&part);
    }
    text
}

/// Each value once, in the order of its first one, with all that have it, as nodes.
pub fn group_by_value<T: PartialEq, N>(all: impl IntoIterator<Item = (T, N)>) -> Vec<(T, Vec<N>)> {
    let mut groups: Vec<(T, Vec<N>)> = Vec::new();
    for (value, one) in all {
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, of_value)) => of_value.push(one),
            None => groups.push((value, vec![one])),
        }
    }
    groups
}

/// Names nodes, at most [`NAMED`], and counts the others.
pub fn name_nodes(nodes: &[impl AsRef<str>]) -> String {
    name_at_most(NAMED, nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::NO_AGENT;

    #[test]
    fn nodes_with_the_same_cause_share_a_line() {
        let missing =
            |node: usize, why: &str| MissingNode::without_answer(format!("n{node}"), why.into());
        let mut all: Vec<MissingNode> = (1..=6)
            .map(|node| missing(node, "no answer within 5 s"))
            .collect();
        all.push(missing(7, "its pod has gone"));
        let asked = FleetAnswers::<()> {
            answers: vec![],
            missing: all,
            without_agent: vec![],
        };
        assert_eq!(
            asked.absent(),
            "no answer from n1, n2, n3, n4 and 2 others: no answer within 5 s\nno answer from n7: its pod has gone"
        );
    }

    #[test]
    fn a_node_with_an_agent_cannot_say_that_it_has_none() {
        let asked = FleetAnswers::<()> {
            answers: vec![],
            missing: vec![
                MissingNode::without_answer("n1".into(), NO_AGENT.into()),
                MissingNode::without_agent("n2".into()),
            ],
            without_agent: vec!["n3".into()],
        };
        assert!(asked.lacks_answer());
        let document = asked.document(Value::Null);
        assert_eq!(
            document["missing"],
            json!([{"node": "n1", "why": NO_AGENT}])
        );
        assert_eq!(document["withoutAgent"], json!(["n2", "n3"]));
    }
}

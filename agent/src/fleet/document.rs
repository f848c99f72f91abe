//! The document of `-o json|yaml`: each node's own document, whole, and the nodes that are missing.

use super::ask::{Answer, Asked};
use super::missing::{self, Missing};
use super::output;
use super::scope::Form;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;

/// All answers.
#[derive(Debug, Serialize)]
struct Document<'a, T, X> {
    /// Sorted by node.
    nodes: Vec<Of<'a, T>>,
    /// Nodes that did not answer.
    missing: &'a [Missing],
    /// What only the cluster shows.
    #[serde(flatten)]
    more: X,
}

#[derive(Debug, Serialize)]
struct Of<'a, T> {
    node: &'a str,
    pod: &'a str,
    /// What the local command prints with `-o json`.
    answer: &'a T,
}

/// Nothing beside the nodes' answers.
#[derive(Debug, Serialize)]
pub struct Nothing {}

/// Prints the document, or the text for people and below it the nodes that did not answer. Returns the exit code of the
/// worst node. Errors: none for documents of this program.
pub fn print<T: Serialize, X: Serialize>(
    form: Form,
    asked: &Asked<T>,
    more: X,
    table: impl FnOnce(&[Answer<T>]) -> String,
) -> Result<ExitCode> {
    let nodes = asked.answers.iter().map(|answer| Of {
        node: &answer.agent.node,
        pod: &answer.agent.pod,
        answer: &answer.value,
    });
    let document = Document {
        nodes: nodes.collect(),
        missing: &asked.missing,
        more,
    };
    let text = form.output().text(&document, |_| {
        let parts = [table(&asked.answers), missing::text(&asked.missing)];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    });
    output::line(&text?)?;
    Ok(asked.code().into())
}

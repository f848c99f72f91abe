//! Asks all agents side by side, and prints what they answer: a verb's table of all nodes, or one document.
//!
//! A node's document may be of any version. For people, each of its texts is made plain: a node must not write to their terminal.

use super::agents::{Agent, Fleet};
use super::exec::{self, Done};
use super::nodes::{Missing, names};
use super::scope::Form;
use crate::shared::output::print;
use crate::shared::{plain, status};
use anyhow::Result;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{pin::pin, process::ExitCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Exit code if a node did not answer.
pub const UNKNOWN: u8 = 2;
/// Seconds to wait for a node, unless it has much to read.
pub const PATIENCE: u64 = 5;
/// A node makes room for the next one after this share of the time that it has. So nodes that are dead delay the others by
/// little, and at most so many times `--parallel` are asked at once.
const SHARE: u32 = 5;
/// Most octets that are read of a node's document. The largest, of `drops`, has 1 MB.
const DOCUMENT: u64 = 8 << 20;
/// Where a document has a status, which has the number of its form.
const STATUSES: [&str; 2] = ["", "/status"];

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The agent that answered.
    pub agent: Agent,
    /// The document that the command printed; for people, each of its texts is plain.
    pub exact: Value,
    /// What this version knows of it.
    pub known: T,
    /// The command's exit code there; 2 for one that no verb has.
    pub code: u8,
}

impl<T> Answer<T> {
    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.agent.node
    }
}

/// The answers of all nodes that answered, by name, and the others.
#[derive(Debug)]
pub struct Asked<T> {
    /// Sorted by node.
    pub answers: Vec<Answer<T>>,
    /// Sorted by node.
    pub missing: Vec<Missing>,
    /// Nodes that should have an agent by their labels, and have no pod of one.
    pub without_agent: Vec<String>,
}

impl<T> Asked<T> {
    /// The exit code of the worst node.
    pub fn code(&self) -> u8 {
        let missing = self.missing.iter().map(|_| UNKNOWN);
        let codes = self.answers.iter().map(|answer| answer.code).chain(missing);
        codes.max().unwrap_or(0)
    }

    /// The nodes that answered.
    pub fn nodes(&self) -> Vec<&str> {
        self.answers.iter().map(Answer::node).collect()
    }

    /// The nodes that did not answer, and those without an agent, by cause; empty if there are none.
    pub fn absent(&self) -> String {
        let mut lines = Missing::lines(&self.missing);
        if !self.without_agent.is_empty() {
            lines.push(format!("no agent runs on {}, so packets pass there", names(&self.without_agent)));
        }
        lines.join("\n")
    }

    /// Prints the text for people and below it the nodes that did not answer, or a document: each node's own, and `more` that only
    /// the cluster shows. Returns the exit code of the worst node. Errors: the output fails.
    pub fn print(
        &self,
        form: Form,
        more: &impl Serialize,
        table: impl FnOnce(&[Answer<T>]) -> String,
    ) -> Result<ExitCode> {
        let nodes = self
            .answers
            .iter()
            .map(|answer| json!({"node": answer.node(), "pod": answer.agent.pod, "answer": answer.exact}));
        let nodes: Vec<Value> = nodes.collect();
        let mut document =
            json!({"nodes": nodes, "missing": self.missing, "withoutAgent": self.without_agent});
        if let (Value::Object(all), Value::Object(more)) = (&mut document, serde_json::to_value(more)?) {
            all.extend(more);
        }
        let text = form.output().text(&document, |_| {
            let parts = [table(&self.answers), self.absent()].into_iter();
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
        });
        print(&text?)?;
        Ok(self.code().into())
    }
}

/// Runs `epguard` with these arguments and `-o json` on each node. With a namespace, of the list at `services` (a JSON pointer) only
/// the items about its Services stay.
pub async fn ask<T: DeserializeOwned>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
    services: Option<&str>,
) -> Asked<T> {
    let arguments = [arguments, &["-o", "json"]].concat();
    each(fleet, &arguments, seconds, DOCUMENT, |_, done: Done| {
        let mut exact = decode(&done.stdout, fleet.scope.output).map_err(|why| match &done.stdout[..] {
            [] => failure(&done.stderr).unwrap_or(why),
            _ => why,
        })?;
        let list = services.and_then(|at| exact.pointer_mut(at)?.as_array_mut());
        if let (Some(namespace), Some(list)) = (&fleet.scope.namespace, list) {
            let of = |item: &Value| Some(item["service"].as_str()?.split_once('/')?.0 == namespace);
            list.retain(|item| of(item) == Some(true));
        }
        let known = serde_json::from_value(exact.clone()).map_err(|error| unknown(&error))?;
        Ok((exact, known, done.code))
    })
    .await
}

/// Runs `epguard` with these arguments on each node, a bounded number at a time, and takes what it prints, at most `limit` octets, as
/// `read` does: a document, what is known of it, and the exit code.
pub async fn each<T>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
    limit: u64,
    read: impl Fn(&Agent, Done) -> Result<(Value, T, u8), String>,
) -> Asked<T> {
    let command = [&["epguard"], arguments].concat();
    let patience = fleet.scope.patience(seconds);
    let places = Semaphore::new(fleet.scope.parallel.into());
    let run = async |agent: &Agent| {
        let place = places.acquire().await;
        let mut done = pin!(timeout(patience, exec::run(fleet, agent, &command, limit)));
        let soon = timeout(patience / SHARE, &mut done).await;
        drop(place);
        let done = match soon {
            Ok(done) => done,
            Err(_) => done.await,
        };
        let done = done.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs())));
        (agent.clone(), done.and_then(|done| read(agent, done)))
    };
    let mut all: FuturesUnordered<_> = fleet.agents.iter().map(run).collect();
    let (mut answers, mut missing) = (Vec::new(), fleet.missing.clone());
    while let Some((agent, answer)) = all.next().await {
        match answer {
            Ok((exact, known, code)) => {
                answers.push(Answer { agent, exact, known, code: code.min(UNKNOWN) });
            }
            Err(why) => missing.push(Missing { node: agent.node, why }),
        }
    }
    answers.sort_by(|a, b| a.agent.node.cmp(&b.agent.node));
    missing.sort();
    Asked { answers, missing, without_agent: fleet.without_agent.clone() }
}

/// Reads a document. Errors: its form is newer, or it is no document; in one line.
pub fn decode(content: &[u8], form: Form) -> Result<Value, String> {
    let mut document: Value = serde_json::from_slice(content).map_err(|error| unknown(&error))?;
    if let Some(why) = newer(&document) {
        return Err(why);
    }
    if form.is_for_people() {
        plain::all(&mut document);
    }
    Ok(document)
}

/// An answer that is not as this version knows it.
fn unknown(error: &serde_json::Error) -> String {
    format!("its answer cannot be read ({error}): use the plugin of the agent's version")
}

/// Why a command failed, by what it printed on standard error.
pub fn failure(stderr: &[u8]) -> Option<String> {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back()?;
    // An older version does not know the verb, or one of its flags.
    if last.starts_with("For more information, try") {
        let error = lines().next()?.trim_start_matches("error: ");
        return Some(format!(
            "its epguard does not know the command ({error}): use the plugin of the agent's version"
        ));
    }
    Some(last.trim_start_matches("epguard: ").to_owned())
}

/// Names version and form of a status that only a later version reads.
fn newer(document: &Value) -> Option<String> {
    let own = status::Form::default();
    let mut statuses = STATUSES.iter().filter_map(|at| document.pointer(at));
    statuses.find_map(|status| {
        let form: status::Form = serde_json::from_value(status.get("form")?.clone()).ok()?;
        let version = status["version"].as_str().unwrap_or("of another version");
        (form > own).then(|| {
            format!(
                "epguard {version} answers in form {}, this plugin reads {}: use the plugin of that version",
                form.number(),
                own.number()
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::Status;
    use serde_json::json;

    fn read(document: &Value) -> Result<Value, String> {
        decode(document.to_string().as_bytes(), Form::Table)
    }

    #[test]
    fn a_newer_form_is_refused_wherever_the_status_stands() {
        let mut status = serde_json::to_value(Status::default()).unwrap();
        for document in [json!(status), json!({"status": status})] {
            assert_eq!(read(&document).as_ref(), Ok(&document));
        }
        status["form"] = 5.into();
        status["version"] = "0.9.0".into();
        for document in [json!(status), json!({"status": status})] {
            assert_eq!(
                read(&document).unwrap_err(),
                "epguard 0.9.0 answers in form 5, this plugin reads 2: use the plugin of that version"
            );
        }
    }

    #[test]
    fn a_nodes_texts_are_plain_for_people_and_exact_in_documents() {
        let document = br#"["a\u001b[2J\n"]"#;
        assert_eq!(decode(document, Form::Table), Ok(json!(["a\\u{1b}[2J\\n"])));
        assert_eq!(decode(document, Form::Json), Ok(json!(["a\u{1b}[2J\n"])));
    }

    #[test]
    fn the_usage_of_an_older_version_is_no_error_of_the_agent() {
        let failed = |stderr: &str| failure(stderr.as_bytes());
        let usage = "error: unexpected argument '--output' found\n\nUsage: epguard drops\n\nFor more information, try '--help'.\n";
        let why = "its epguard does not know the command (unexpected argument '--output' found): use the plugin of the agent's version";
        assert_eq!(failed(usage).as_deref(), Some(why));
        assert_eq!(failed("log\nepguard: no agent\n").as_deref(), Some("no agent"));
        assert_eq!(failed(""), None);
    }
}

//! Asks all agents side by side, and prints what they answer: a verb's table of all nodes, or one
//! document.
//!
//! A node's document may be of any version. For people, each of its texts is made plain: a node
//! must not write to their terminal.

use super::agents::{Agent, Fleet};
use super::exec::{self, Done};
use super::scope::Form;
use crate::shared::output::print;
use crate::shared::plain::{self, plain};
use anyhow::Result;
use futures::{StreamExt as _, stream};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{pin::pin, process::ExitCode, time::Duration};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Exit code if a node did not answer.
pub const UNKNOWN: u8 = 2;
/// Seconds to wait for a node, unless it has much to read.
pub const PATIENCE: u64 = 5;
/// A node that takes more than this part of the wait is slow.
const SLOW: u32 = 5;
/// Most octets that are read of a node's document. The largest, of `drops`, has 1 MB.
pub const DOCUMENT: u64 = 8 << 20;
/// Where a document has the name of its node.
const NODES: [&str; 2] = ["/node", "/status/node"];
/// The most nodes that a line names.
const NAMED: usize = 5;
/// The most characters of a cause that are shown: a node may write it.
const LENGTH: usize = 500;

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The agent that answered.
    pub agent: Agent,
    /// The document that the command printed; for people, each of its texts is plain.
    pub exact: Value,
    /// The same as this version's type.
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

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// Name of the node.
    pub node: String,
    /// The cause, in one line.
    pub why: String,
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
        let worst = self
            .answers
            .iter()
            .map(|answer| answer.code)
            .max()
            .unwrap_or(0);
        if self.missing.is_empty() {
            worst
        } else {
            UNKNOWN
        }
    }

    /// The nodes that did not answer, and those without an agent, by cause; empty if there are
    /// none.
    pub fn absent(&self) -> String {
        let cut = |why: &str| plain(&why.chars().take(LENGTH).collect::<String>()).into_owned();
        let causes = grouped(self.missing.iter().map(|one| (cut(&one.why), &*one.node)));
        let mut lines: Vec<String> = causes
            .into_iter()
            .map(|(why, nodes)| format!("no answer from {}: {why}", names(&nodes)))
            .collect();
        if !self.without_agent.is_empty() {
            lines.push(format!(
                "no agent runs on {}, so packets pass there: see the Events of the DaemonSet, its nodeSelector and tolerations",
                names(&self.without_agent)
            ));
        }
        lines.join("\n")
    }

    /// Prints the text for people and below it the nodes that did not answer, or a document: each
    /// node's own, and `more` that only the cluster shows, an object or nothing. Returns the exit
    /// code of the worst node. Errors: the output fails.
    pub fn print(
        &self,
        form: Form,
        more: Value,
        text: impl FnOnce(&[Answer<T>]) -> String,
    ) -> Result<ExitCode> {
        let answers = self.answers.iter();
        let nodes = answers
            .map(|answer| json!({"node": answer.node(), "pod": answer.agent.pod, "answer": answer.exact}));
        let mut document = more;
        document["nodes"] = nodes.collect();
        document["missing"] = json!(self.missing);
        document["withoutAgent"] = json!(self.without_agent);
        let text = form.output().text(&document, |_| {
            let parts = [text(&self.answers), self.absent()].into_iter();
            parts
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n")
        });
        print(&text?)?;
        Ok(self.code().into())
    }
}

/// A command: words, and the flags that have a value.
pub fn command<'a>(words: &[&'a str], flags: &[(&'a str, Option<&'a str>)]) -> Vec<&'a str> {
    let given = flags
        .iter()
        .filter_map(|(flag, value)| Some([*flag, (*value)?]));
    words.iter().copied().chain(given.flatten()).collect()
}

/// Runs `epguard` with these arguments and `-o json` on each node.
pub async fn ask<T: DeserializeOwned>(fleet: &Fleet, arguments: &[&str], seconds: u64) -> Asked<T> {
    let arguments = [arguments, &["-o", "json"]].concat();
    each(fleet, &arguments, seconds, DOCUMENT, |agent, done: Done| {
        let read = decode(&done.stdout, &agent.node, fleet.scope.output);
        let (exact, known) = read.map_err(|why| match &done.stdout[..] {
            [] => failure(&done.stderr).unwrap_or(why),
            _ => why,
        })?;
        Ok((exact, known, done.code))
    })
    .await
}

/// Runs `epguard` with these arguments on each node, a bounded number at a time, and takes what it
/// prints, at most `limit` octets, as `read` does: a document, what is known of it, and the exit
/// code.
pub async fn each<T>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
    limit: u64,
    read: impl Fn(&Agent, Done) -> Result<(Value, T, u8), String>,
) -> Asked<T> {
    let command = [&["epguard"], arguments].concat();
    let patience = fleet.scope.timeout.unwrap_or(Duration::from_secs(seconds));
    let places = Semaphore::new(fleet.scope.parallel.into());
    let run = async |agent: &Agent| {
        let mut place = places.acquire().await.ok();
        let mut done = pin!(timeout(patience, exec::run(fleet, agent, &command, limit)));
        // One that is slow makes room for others.
        let done = if let Ok(done) = timeout(patience / SLOW, &mut done).await {
            done
        } else {
            place.take();
            done.await
        };
        let done =
            done.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs())));
        (agent.clone(), done.and_then(|done| read(agent, done)))
    };
    let mut all = pin!(
        stream::iter(&fleet.agents)
            .map(run)
            .buffer_unordered(usize::from(fleet.scope.parallel) * SLOW as usize)
    );
    let (mut answers, mut missing) = (Vec::new(), fleet.missing.clone());
    while let Some((agent, answer)) = all.next().await {
        match answer {
            Ok((exact, known, code)) => {
                answers.push(Answer {
                    agent,
                    exact,
                    known,
                    code: code.min(UNKNOWN),
                });
            }
            Err(why) => missing.push(Missing {
                node: agent.node,
                why,
            }),
        }
    }
    answers.sort_by(|a, b| a.agent.node.cmp(&b.agent.node));
    missing.sort();
    Asked {
        answers,
        missing,
        without_agent: fleet.without_agent.clone().unwrap_or_default(),
    }
}

/// Reads a document, as it is and as this version's type. For people, its texts are plain, and the
/// API names its node. Errors: this version cannot read it; in one line.
pub fn decode<T: DeserializeOwned>(
    content: &[u8],
    node: &str,
    form: Form,
) -> Result<(Value, T), String> {
    let read = || {
        let mut document: Value = serde_json::from_slice(content)?;
        if form.is_for_people() {
            plain::all(&mut document);
            for at in NODES {
                if let Some(own) = document.pointer_mut(at) {
                    *own = node.into();
                }
            }
        }
        serde_json::from_value(document.clone()).map(|known| (document, known))
    };
    read().map_err(|error: serde_json::Error| {
        format!("its answer cannot be read ({error}): use the plugin of the agent's version")
    })
}

/// Why a command failed, by what it printed on standard error.
pub fn failure(stderr: &[u8]) -> Option<String> {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = || {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
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

/// Each value once, in the order of its first node, with all of its nodes.
pub fn grouped<'a, T: PartialEq>(
    all: impl IntoIterator<Item = (T, &'a str)>,
) -> Vec<(T, Vec<&'a str>)> {
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
        let missing = |node: usize, why: &str| Missing {
            node: format!("n{node}"),
            why: why.into(),
        };
        let mut all: Vec<Missing> = (1..=6)
            .map(|node| missing(node, "no answer within 5 s"))
            .collect();
        all.push(missing(7, "its pod has gone"));
        let asked = Asked::<()> {
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
    fn a_nodes_texts_are_plain_for_people_and_exact_in_documents() {
        let document = br#"{"node": "other", "a": "\u001b[2J\n"}"#;
        let read = |form| decode::<Value>(document, "n1", form).unwrap().1;
        assert_eq!(
            read(Form::Table),
            json!({"node": "n1", "a": "\\u{1b}[2J\\n"})
        );
        assert_eq!(
            read(Form::Json),
            json!({"node": "other", "a": "\u{1b}[2J\n"})
        );
    }

    #[test]
    fn the_usage_of_an_older_version_is_no_error_of_the_agent() {
        let failed = |stderr: &str| failure(stderr.as_bytes());
        let usage = "error: unexpected argument '--output' found\n\nUsage: epguard drops\n\nFor more information, try '--help'.\n";
        let why = "its epguard does not know the command (unexpected argument '--output' found): use the plugin of the agent's version";
        assert_eq!(failed(usage).as_deref(), Some(why));
        assert_eq!(
            failed("log\nepguard: no agent\n").as_deref(),
            Some("no agent")
        );
        assert_eq!(failed(""), None);
    }
}

//! Asks all agents side by side.
//!
//! A node's document may be of any version. For people, each of its texts is made plain: a node
//! must not write to their terminal.

use super::agents::{Agent, Fleet, MissingNode};
use super::answers::{FleetAnswers, NodeAnswer, UNKNOWN};
use super::exec::{self, Done};
use super::names::compare;
use super::progress::Progress;
use super::scope::FleetOutput;
use anyhow::Result;
use epguard_client::shared::plain;
use futures::{StreamExt as _, stream};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{pin::pin, time::Duration};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Seconds to wait for a node, unless it has much to read.
pub const PATIENCE: u64 = 5;
/// A node that takes more than this part of the wait is slow.
const SLOW: u32 = 5;
/// Most octets that are read of a node's document. The largest, of `drops`, has 1 MB.
pub const DOCUMENT: u64 = 8 << 20;
/// Where a document has the name of its node.
const NODES: [&str; 2] = ["/node", "/status/node"];

/// A command: words, and the flags that have a value.
pub fn command_line<'a>(words: &[&'a str], flags: &[(&'a str, Option<&'a str>)]) -> Vec<&'a str> {
    let given = flags
        .iter()
        .filter_map(|(flag, value)| Some([*flag, (*value)?]));
    words.iter().copied().chain(given.flatten()).collect()
}

/// Runs `epguard` with these arguments and `-o json` on each node.
pub async fn ask_nodes<T: DeserializeOwned>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
) -> FleetAnswers<T> {
    let arguments = [arguments, &["-o", "json"]].concat();
    let read = |agent: &Agent, done: Done| {
        let (exact, known) = document_of(&done, agent, fleet.scope.output)?;
        Ok((exact, known, done.code))
    };
    run_on_nodes(fleet, &arguments, seconds, DOCUMENT, read).await
}

/// The document that a node's `epguard` has printed, and what is known of it. Errors: why there is
/// none, in its own words if it printed nothing else.
pub fn document_of<T: DeserializeOwned>(
    done: &Done,
    agent: &Agent,
    output: FleetOutput,
) -> Result<(Value, T), String> {
    decode(&done.stdout, &agent.node, output).map_err(|why| {
        if done.stdout.is_empty() {
            failure(&done.stderr).unwrap_or(why)
        } else {
            why
        }
    })
}

/// Runs `epguard` with these arguments on each node, a bounded number at a time, and takes what it
/// prints, at most `limit` octets, as `read` does: a document, what is known of it, and the exit
/// code.
pub async fn run_on_nodes<T>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
    limit: u64,
    read: impl Fn(&Agent, Done) -> Result<(Value, T, u8), String>,
) -> FleetAnswers<T> {
    let command = [&["epguard"], arguments].concat();
    let patience = fleet.scope.patience(Duration::from_secs(seconds));
    let places = Semaphore::new(fleet.scope.parallel.into());
    let run = async |agent: &Agent| {
        let place = places.acquire().await.ok();
        let running = timeout(patience, exec::run(fleet, agent, &command, limit));
        let ended = give_way(place, patience / SLOW, running).await;
        let answer = match ended {
            Ok(done) => done.and_then(|done| read(agent, done)),
            Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
        };
        (agent.clone(), answer)
    };
    let mut all = pin!(
        stream::iter(&fleet.agents)
            .map(run)
            .buffer_unordered(usize::from(fleet.scope.parallel) * SLOW as usize)
    );
    let mut progress = Progress::begin(fleet);
    let mut answers = Vec::new();
    let mut missing = fleet.missing.clone();
    while let Some((agent, answer)) = all.next().await {
        progress.count();
        match answer {
            Ok((exact, known, code)) => {
                answers.push(NodeAnswer {
                    agent,
                    exact,
                    known,
                    code: code.min(UNKNOWN),
                });
            }
            Err(why) => missing.push(MissingNode::without_answer(agent.node, why)),
        }
    }
    drop(progress);
    answers.sort_by(|a, b| compare(a.node(), b.node()));
    missing.sort_by(|a, b| compare(&a.node, &b.node));
    FleetAnswers {
        answers,
        missing,
        without_agent: fleet.without_agent.clone().unwrap_or_default(),
    }
}

/// Waits for an answer in a place among the nodes that are asked at a time. One that takes longer
/// than `slow` makes room for others.
pub async fn give_way<T>(
    place: Option<SemaphorePermit<'_>>,
    slow: Duration,
    answer: impl Future<Output = T>,
) -> T {
    let mut answer = pin!(answer);
    if let Ok(answer) = timeout(slow, &mut answer).await {
        return answer;
    }
    drop(place);
    answer.await
}

/// Reads a document, as it is and as this version's type. For people, its texts are plain, and the
/// API names its node. Errors: this version cannot read it; in one line.
pub fn decode<T: DeserializeOwned>(
    content: &[u8],
    node: &str,
    output: FleetOutput,
) -> Result<(Value, T), String> {
    read_document(content, node, output).map_err(|error| {
        format!("its answer cannot be read ({error}): use the plugin of the agent's version")
    })
}

fn read_document<T: DeserializeOwned>(
    content: &[u8],
    node: &str,
    output: FleetOutput,
) -> serde_json::Result<(Value, T)> {
    let mut document: Value = serde_json::from_slice(content)?;
    if output.is_for_people() {
        plain::all(&mut document);
        for place in NODES {
            if let Some(name) = document.pointer_mut(place) {
                *name = node.into();
            }
        }
    }
    let known = serde_json::from_value(document.clone())?;
    Ok((document, known))
}

/// Why a command failed, by what it printed on standard error.
pub fn failure(stderr: &[u8]) -> Option<String> {
    let stderr = String::from_utf8_lossy(stderr);
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let first = lines.next()?;
    let last = lines.next_back().unwrap_or(first);
    // An older version does not know the verb, or one of its flags.
    if last.starts_with("For more information, try") {
        let error = first.trim_start_matches("error: ");
        return Some(format!(
            "its epguard does not know the command ({error}): use the plugin of the agent's version"
        ));
    }
    Some(last.trim_start_matches("epguard: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_nodes_texts_are_plain_for_people_and_exact_in_documents() {
        let document = br#"{"node": "other", "a": "\u001b[2J\n"}"#;
        let read = |output| decode::<Value>(document, "n1", output).unwrap().1;
        assert_eq!(
            read(FleetOutput::Table),
            json!({"node": "n1", "a": "\\u{1b}[2J\\n"})
        );
        assert_eq!(
            read(FleetOutput::Json),
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

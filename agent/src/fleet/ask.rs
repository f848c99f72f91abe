//! Asks all agents side by side, and prints what they answer: a verb's table of all nodes, or one document.

use super::agents::{Agent, Fleet};
use super::decode::{decode, failure, unknown};
use super::exec::{self, Done};
use super::missing::{self, Missing};
use super::output;
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

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The agent that answered.
    pub agent: Agent,
    /// What the command printed, as the verb's table needs it.
    pub value: T,
    /// The command's exit code there; 2 for one that no verb has.
    pub code: u8,
}

impl<T> Answer<T> {
    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.agent.node
    }
}

/// What a command printed: exactly, and decoded.
#[derive(Debug, Clone)]
pub struct Document<T> {
    /// For people, each of its texts is plain.
    pub exact: Value,
    /// What this version knows of it.
    pub known: T,
}

/// The answers of all nodes that answered, by name, and the others.
#[derive(Debug)]
pub struct Asked<T> {
    /// Sorted by node.
    pub answers: Vec<Answer<T>>,
    /// Sorted by node.
    pub missing: Vec<Missing>,
}

impl<T> Asked<T> {
    /// The exit code of the worst node.
    pub fn code(&self) -> u8 {
        let missing = self.missing.iter().map(|_| UNKNOWN);
        let codes = self.answers.iter().map(|answer| answer.code).chain(missing);
        codes.max().unwrap_or(0)
    }
}

impl<T> Asked<Document<T>> {
    /// Prints the text for people and below it the nodes that did not answer, or a document: each node's own, and `more` that only
    /// the cluster shows. Returns the exit code of the worst node. Errors: the output fails.
    pub fn print(
        &self,
        fleet: &Fleet,
        more: &impl Serialize,
        table: impl FnOnce(&[Answer<Document<T>>]) -> String,
    ) -> Result<ExitCode> {
        let nodes = self.answers.iter().map(
            |answer| json!({"node": answer.node(), "pod": answer.agent.pod, "answer": answer.value.exact}),
        );
        let mut document = json!({"nodes": nodes.collect::<Vec<_>>(), "missing": self.missing});
        if let (Value::Object(all), Value::Object(more)) = (&mut document, serde_json::to_value(more)?) {
            all.extend(more);
        }
        let text = fleet.scope.output.output().text(&document, |_| {
            let parts = [table(&self.answers), missing::text(&self.missing)];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join("\n\n")
        });
        output::line(&text?)?;
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
) -> Asked<Document<T>> {
    let arguments = [arguments, &["-o", "json"]].concat();
    each(fleet, &arguments, seconds, |_, done: Done| {
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
        Ok((Document { exact, known }, done.code))
    })
    .await
}

/// Runs `epguard` with these arguments on each node, a bounded number at a time, and takes what it prints as `read` does.
pub async fn each<T>(
    fleet: &Fleet,
    arguments: &[&str],
    seconds: u64,
    read: impl Fn(&Agent, Done) -> Result<(T, u8), String>,
) -> Asked<T> {
    let command = [&["epguard"], arguments].concat();
    let patience = fleet.scope.patience(seconds);
    let places = Semaphore::new(fleet.scope.parallel.into());
    let run = async |agent: &Agent| {
        let place = places.acquire().await;
        let mut done = pin!(timeout(patience, exec::run(fleet, agent, &command)));
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
    let (mut answers, mut missing) = (Vec::new(), fleet.without.clone());
    while let Some((agent, answer)) = all.next().await {
        match answer {
            Ok((value, code)) => answers.push(Answer { agent, value, code: code.min(UNKNOWN) }),
            Err(why) => missing.push(Missing { node: agent.node, why }),
        }
    }
    answers.sort_by(|a, b| a.agent.node.cmp(&b.agent.node));
    missing.sort();
    Asked { answers, missing }
}

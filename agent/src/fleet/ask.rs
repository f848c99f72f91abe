//! Asks all agents side by side, a bounded number at a time, and waits for each no longer than `--timeout`.

use super::agents::{Agent, Fleet};
use super::decode::decode;
use super::exec::{self, Done};
use super::missing::Missing;
use super::progress::Progress;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Exit code if a node did not answer.
pub const UNKNOWN: u8 = 2;

/// A node makes room for the next one after this share of the time that it has. So nodes that are dead delay the others by
/// little, and at most so many times `--parallel` nodes are asked at once.
const SHARE: u32 = 5;

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The agent.
    pub agent: Agent,
    /// What it printed.
    pub value: T,
    /// The command's exit code there.
    pub code: u8,
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
    #[must_use]
    pub fn code(&self) -> u8 {
        let worst = self.answers.iter().map(|answer| answer.code).max();
        let missing = if self.missing.is_empty() { 0 } else { UNKNOWN };
        worst.unwrap_or_default().max(missing)
    }
}

/// Runs `epguard` with these arguments on each node, and reads what it prints as JSON.
pub async fn ask<T: DeserializeOwned>(fleet: &Fleet, arguments: &[&str], patience: Duration) -> Asked<T> {
    let read = |_: &Agent, done: Done| {
        let value = decode(&done.stdout, fleet.scope.output).map_err(|why| failure(&done).unwrap_or(why))?;
        Ok((value, done.code))
    };
    each(fleet, arguments, patience, read).await
}

/// Runs `epguard` with these arguments on each node, and takes what it prints as `read` does.
pub async fn each<T>(
    fleet: &Fleet,
    arguments: &[&str],
    patience: Duration,
    read: impl Fn(&Agent, Done) -> Result<(T, u8), String>,
) -> Asked<T> {
    let command: Vec<String> = { ["epguard"].iter() }
        .chain(arguments)
        .map(|word| (*word).to_owned())
        .collect();
    let mut progress = Progress::new(fleet.agents.len());
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
        let late = |_| format!("no answer within {} s", patience.as_secs());
        (agent.clone(), done.map_err(late).flatten())
    };
    let mut all: FuturesUnordered<_> = fleet.agents.iter().map(run).collect();
    let mut asked = Asked {
        answers: Vec::new(),
        missing: fleet
            .without
            .iter()
            .map(|node| Missing::without_agent(node))
            .collect(),
    };
    while let Some((agent, done)) = all.next().await {
        match done.and_then(|done| read(&agent, done)) {
            Ok((value, code)) => asked.answers.push(Answer { agent, value, code }),
            Err(why) => asked.missing.push(Missing {
                node: agent.node,
                why,
            }),
        }
        progress.step();
    }
    asked.answers.sort_by(|a, b| a.agent.node.cmp(&b.agent.node));
    asked.missing.sort();
    asked
}

/// The error of a command that printed no document.
fn failure(done: &Done) -> Option<String> {
    last_line(&done.stderr).filter(|_| done.stdout.is_empty())
}

/// The last line that a command wrote to standard error, without its name: its error.
#[must_use]
pub fn last_line(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty())?;
    Some(last.trim_start_matches("epguard: ").to_owned())
}

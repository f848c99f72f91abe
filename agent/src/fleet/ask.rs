//! Asks all agents side by side, a bounded number at a time, and waits for each no longer than `--timeout`.

use super::agents::{Agent, Fleet};
use super::decode::{Unread, decode, failure};
use super::exec::{self, Done};
use super::missing::Missing;
use super::places::Places;
use super::progress::Progress;
use super::version;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Exit code if a node did not answer.
pub const UNKNOWN: u8 = 2;
/// Seconds to wait for a node, unless it has much to read.
pub const PATIENCE: u64 = 5;

/// The answer of a node.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    /// The agent that answered.
    pub agent: Agent,
    /// What the command printed, decoded.
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
        let worst = self.answers.iter().map(|answer| answer.code).max();
        let missing = if self.missing.is_empty() { 0 } else { UNKNOWN };
        worst.unwrap_or_default().max(missing)
    }
}

/// Runs `epguard` with these arguments on each node, and reads what it prints as JSON.
pub async fn ask<T: DeserializeOwned>(fleet: &Fleet, arguments: &[&str], patience: Duration) -> Asked<T> {
    let read = |_: &Agent, done: Done| {
        let value = decode(&done.stdout, fleet.scope.output).map_err(|why| match &done.stdout[..] {
            [] => failure(&done.stderr).unwrap_or(why),
            _ => why,
        })?;
        Ok((value, done.code))
    };
    each(fleet, arguments, patience, read).await
}

/// Runs `epguard` with these arguments on each node, and takes what it prints as `read` does.
pub async fn each<T>(
    fleet: &Fleet,
    arguments: &[&str],
    patience: Duration,
    read: impl Fn(&Agent, Done) -> Result<(T, u8), Unread>,
) -> Asked<T> {
    let words = ["epguard"].iter().chain(arguments);
    let command: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let mut progress = Progress::new(fleet.agents.len());
    let places = Places::new(fleet.scope.parallel, patience);
    let run = async |agent: &Agent| {
        let done = places.run(exec::run(fleet, agent, &command)).await;
        let read = done
            .map_err(|refused| Unread::Because(refused.why))
            .and_then(|done| read(agent, done));
        let answer = match read {
            Ok(answer) => Ok(answer),
            Err(Unread::Because(why) | Unread::Newer(why)) => Err(why),
            Err(Unread::Foreign(why)) => Err(version::explain(fleet, agent, patience, why).await),
        };
        (agent.clone(), answer)
    };
    let mut all: FuturesUnordered<_> = fleet.agents.iter().map(run).collect();
    let mut asked = Asked {
        answers: Vec::new(),
        missing: fleet.without(),
    };
    while let Some((agent, answer)) = all.next().await {
        match answer {
            Ok((value, code)) => asked.answers.push(Answer {
                agent,
                value,
                code: code.min(UNKNOWN),
            }),
            Err(why) => {
                let node = agent.node;
                asked.missing.push(Missing { node, why });
            }
        }
        progress.step();
    }
    asked.answers.sort_by(|a, b| a.agent.node.cmp(&b.agent.node));
    asked.missing.sort();
    asked
}

/// Why a command that prints no document failed.
pub fn failed(done: &Done, otherwise: &str) -> Unread {
    failure(&done.stderr).unwrap_or_else(|| Unread::Because(otherwise.to_owned()))
}

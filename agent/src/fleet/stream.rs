//! A stream of each node's documents (`epguard top -o json`), one a second.
//!
//! A document comes even when nothing is denied, so the command ends on its node within a second after this program.

use super::agents::{Agent, Fleet};
use super::ask::last_line;
use super::decode::decode;
use super::exec;
use crate::commands::top::Document;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};

/// Seconds to wait for a document.
const PATIENCE: u64 = 10;
/// Most octets of one connection's documents: it begins anew after them.
const LIMIT: u64 = 64 << 20;
/// Time until a node that was lost is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// What a stream brings.
#[derive(Debug)]
pub enum Update {
    /// The node's state at this moment.
    Document(Box<Document>),
    /// No document comes any more, until the next one. The cause.
    Lost(String),
}

/// Follows all nodes without end. A bounded number of streams is opened at a time. Names the node with each of its updates.
#[must_use]
pub fn documents(fleet: Fleet) -> Receiver<(String, Update)> {
    let (sender, receiver) = channel(fleet.agents.len().max(1));
    let opening = Arc::new(Semaphore::new(fleet.scope.parallel.into()));
    let fleet = Arc::new(fleet);
    for agent in fleet.agents.clone() {
        let (fleet, opening, to) = (Arc::clone(&fleet), Arc::clone(&opening), sender.clone());
        tokio::spawn(async move {
            let mut known = None;
            loop {
                let why = follow(&fleet, &agent, &opening, &to, &mut known).await;
                let is_new = known.as_ref() != Some(&why);
                known = Some(why.clone());
                if is_new && to.send((agent.node.clone(), Update::Lost(why))).await.is_err() {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
    }
    receiver
}

/// Sends documents until the stream ends, and returns why it did. A cause is reported once: `known` is forgotten with
/// the next document.
async fn follow(
    fleet: &Fleet,
    agent: &Agent,
    opening: &Semaphore,
    to: &Sender<(String, Update)>,
    known: &mut Option<String>,
) -> String {
    let patience = fleet.scope.patience(PATIENCE);
    let late = || format!("no answer within {} s", patience.as_secs());
    let command = ["epguard", "top", "--output", "json", "--count", "4294967295"].map(str::to_owned);
    let started = {
        let _permit = opening.acquire().await;
        timeout(patience, exec::start(fleet, agent, &command)).await
    };
    let mut process = match started {
        Ok(Ok(process)) => process,
        Ok(Err(why)) => return why,
        Err(_) => return late(),
    };
    let status = process.take_status();
    let Some(stdout) = process.stdout() else {
        return "it has no output".to_owned();
    };
    let mut lines = BufReader::new(stdout.take(LIMIT)).lines();
    loop {
        match timeout(patience, lines.next_line()).await {
            Err(_) => return late(),
            Ok(Ok(Some(line))) => match decode(line.as_bytes(), fleet.scope.output) {
                Ok(document) => {
                    *known = None;
                    let update = Update::Document(document);
                    if to.send((agent.node.clone(), update)).await.is_err() {
                        return String::new();
                    }
                }
                Err(why) => return why,
            },
            Ok(Ok(None) | Err(_)) => break,
        }
    }
    let mut stderr = Vec::new();
    if let Some(mut from) = process.stderr() {
        let _ = timeout(patience, from.read_to_end(&mut stderr)).await;
    }
    if let Some(line) = last_line(&stderr) {
        return line;
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    match exec::code(status.as_ref()) {
        Ok(code) => format!("its command ended with exit code {code}"),
        Err(why) => why,
    }
}

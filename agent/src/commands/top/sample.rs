//! One reading: the agent's answers, by its socket, and the kernel's counters, which outlive the agent.

use crate::commands::drops;
use crate::commands::status::{Problem, problems};
use crate::kernel::maps::{self, Counters};
use crate::shared::clock;
use crate::shared::drops::Dropped;
use crate::shared::status::{self, Request, Status};
use anyhow::Result;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};

/// The directories to read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) pin_dir: PathBuf,
    pub(super) run_dir: PathBuf,
}

/// One reading of the agent and the counters.
#[derive(Debug)]
pub struct Sample {
    /// `CLOCK_BOOTTIME`.
    pub at: Duration,
    /// An error while no agent answers, such as when it restarts.
    pub agent: Result<Agent>,
    /// An error once the datapath is detached.
    pub counters: Result<Counters>,
    /// True if the counts are not of the same nodes as those before, so that there are no rates.
    pub renewed: bool,
}

/// The agent's answers.
#[derive(Debug)]
pub struct Agent {
    /// Which node or nodes, and their modes, for the first line.
    pub who: String,
    /// What keeps it from its work.
    pub problems: Vec<Problem>,
    /// Its state.
    pub status: Status,
    /// Denied flows.
    pub drops: Vec<Dropped>,
    /// Whether others are left out.
    pub narrowed: bool,
}

impl Agent {
    /// The answers of one node's agent.
    #[must_use]
    pub fn of_node(status: Status, drops: Vec<Dropped>) -> Self {
        let (node, mode, source) = (&status.node, status.mode_name(), status.mode_source);
        Self {
            who: format!("{node}: {mode} (by {source})"),
            problems: problems(&status),
            status,
            drops,
            narrowed: false,
        }
    }
}

impl Source {
    /// Reads once. Blocks, for seconds if the agent hangs.
    pub(super) fn sample(&self) -> Sample {
        let status = status::ask(&self.run_dir, &Request::Figures);
        let agent = status.and_then(|status| Ok(Agent::of_node(status, drops::ask(&self.run_dir)?)));
        Sample {
            agent,
            counters: maps::counters(&self.pin_dir),
            at: clock::boot(),
            renewed: false,
        }
    }

    /// Reads again and again, on a thread of its own: keys work even while the agent hangs.
    pub(super) fn every(self, interval: Duration) -> Receiver<Sample> {
        let (tell, told) = mpsc::channel(1);
        thread::spawn(move || {
            loop {
                thread::sleep(interval);
                if tell.blocking_send(self.sample()).is_err() {
                    return;
                }
            }
        });
        told
    }
}

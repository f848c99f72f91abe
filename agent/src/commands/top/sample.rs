//! One reading: the agent's answers, by its socket, and the kernel's counters, which outlive the agent.

use crate::commands::drops;
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
pub(super) struct Sample {
    /// `CLOCK_BOOTTIME`.
    pub(super) at: Duration,
    /// An error while no agent answers, such as when it restarts.
    pub(super) agent: Result<Agent>,
    /// An error once the datapath is detached.
    pub(super) counters: Result<Counters>,
}

/// The agent's answers.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) status: Status,
    pub(super) drops: Vec<Dropped>,
}

impl Source {
    /// Reads once. Blocks, for seconds if the agent hangs.
    pub(super) fn sample(&self) -> Sample {
        Sample {
            agent: self.ask(),
            counters: maps::counters(&self.pin_dir),
            at: clock::boot(),
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

    fn ask(&self) -> Result<Agent> {
        Ok(Agent {
            status: status::ask(&self.run_dir, &Request::Figures)?,
            drops: drops::ask(&self.run_dir)?,
        })
    }
}

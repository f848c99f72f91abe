//! Kills processes that hang.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A thread that waits beside a group of processes.
pub(crate) struct Watchdog {
    ended: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    /// After `limit`, kills the group of processes that `leader` leads.
    pub(crate) fn new(leader: u32, limit: Duration) -> Self {
        let (ended, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let hangs = wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if hangs && let Ok(group) = i32::try_from(leader) {
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            hangs
        });
        Self { ended, thread }
    }

    /// Ends the watchdog. True if it had killed the processes before.
    pub(crate) fn has_killed(self) -> bool {
        drop(self.ended);
        self.thread.join().unwrap_or_default()
    }
}

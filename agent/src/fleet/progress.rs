//! How many nodes have been asked, on a terminal.

use std::io::{IsTerminal as _, Write as _, stderr};

/// A line on standard error that is replaced as answers come, and removed at the end. Nothing without a terminal.
#[derive(Debug)]
pub struct Progress {
    done: usize,
    all: usize,
    shown: bool,
}

impl Progress {
    /// Begins with no node asked.
    pub fn new(all: usize) -> Self {
        let progress = Self {
            done: 0,
            all,
            shown: stderr().is_terminal(),
        };
        progress.show();
        progress
    }

    /// A node was asked, whether or not it answered.
    pub fn step(&mut self) {
        self.done += 1;
        self.show();
    }

    fn show(&self) {
        if self.shown {
            // A terminal that is gone needs no progress.
            let _ = write!(stderr(), "\rasked {} of {} nodes", self.done, self.all);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

//! How many nodes have answered, while they are asked: one line on standard error, if that is a
//! terminal. It is rewritten, and erased at the end.

use super::agents::Fleet;
use epguard_client::shared::output::count;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time between two lines, so that a slow terminal does not delay the answers.
const PACE: Duration = Duration::from_millis(100);

/// The line.
#[derive(Debug)]
pub struct Progress {
    nodes: usize,
    answered: usize,
    /// When it was written last; none where there is no terminal.
    written: Option<Instant>,
    /// Its width on the terminal.
    width: usize,
}

impl Progress {
    /// Shows that nodes are asked.
    pub fn begin(fleet: &Fleet) -> Self {
        let shows = fleet.shows_progress && io::stderr().is_terminal();
        let mut progress = Self {
            nodes: fleet.agents.len(),
            answered: 0,
            written: shows.then(Instant::now),
            width: 0,
        };
        progress.write();
        progress
    }

    /// Counts a node that has answered, or that will not.
    pub fn count(&mut self) {
        self.answered += 1;
        if self.written.is_some_and(|at| at.elapsed() >= PACE) {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.written.is_none() {
            return;
        }
        let line = self.line();
        self.width = line.len();
        self.written = Some(Instant::now());
        let _ = write!(io::stderr(), "\r{line}");
    }

    fn line(&self) -> String {
        format!("asked {} of {}", self.answered, count(self.nodes, "node"))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.width > 0 {
            // Not every terminal of Windows knows the sequence that erases a line.
            let blank = " ".repeat(self.width);
            let _ = write!(io::stderr(), "\r{blank}\r");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_and_without_a_terminal_nothing_is_written() {
        let mut progress = Progress {
            nodes: 500,
            answered: 311,
            written: None,
            width: 0,
        };
        progress.count();
        assert_eq!(progress.line(), "asked 312 of 500 nodes");
        assert_eq!(progress.width, 0);
    }
}

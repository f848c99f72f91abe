//! The last lines of the log, for `epguard sysdump`, which cannot read the container's own log.

use std::collections::VecDeque;
use std::io::{self, Stderr, Write};
use std::sync::{Mutex, PoisonError};

/// Lines that are kept.
const LINES: usize = 1_000;

/// Bytes that are kept of a line.
const LENGTH: usize = 1_024;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// A writer to standard error that stores the last lines.
pub(super) struct Remembering(Stderr);

/// A writer for one record.
pub(super) fn stderr() -> Remembering {
    Remembering(io::stderr())
}

/// The last 1,000 lines, the oldest first; of each at most 1,024 bytes.
#[must_use]
pub fn recent() -> Vec<String> {
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().cloned().collect()
}

fn remember(record: &[u8]) {
    let record = record.get(..LENGTH).unwrap_or(record);
    let line = String::from_utf8_lossy(record).trim_end().to_owned();
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() >= LINES {
        recent.pop_front();
    }
    recent.push_back(line);
}

impl Write for Remembering {
    /// Writes a record, which arrives in one piece.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        remember(record);
        self.0.write_all(record)?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        for number in 0..LINES {
            remember(format!("line {number}\n").as_bytes());
        }
        remember(&[b'x'; 2 * LENGTH]);
        let recent = recent();
        assert_eq!(recent.len(), LINES);
        assert_eq!(recent[0], "line 1");
        assert_eq!(recent[LINES - 1].len(), LENGTH);
    }
}

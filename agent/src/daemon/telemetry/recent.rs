//! The last lines of the log, for `epguard sysdump`, which cannot read the container's own log.

use nix::libc;
use std::collections::VecDeque;
use std::io::{self, Stderr, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Lines that are kept.
const LINES: usize = 1_000;

/// Bytes that are kept of a line.
const LENGTH: usize = 1_024;

static RECENT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Longest wait for a reader of the log, in milliseconds.
const PATIENCE: i32 = 100;

/// False once no reader came in this time.
static IS_READ: AtomicBool = AtomicBool::new(true);

/// A writer to standard error that stores the last lines.
pub(super) struct Remembering<W = Stderr>(W);

/// A writer for one record.
pub(super) fn stderr() -> Remembering {
    Remembering(io::stderr())
}

/// The last 1,000 lines, the oldest first; of each at most 1,024 bytes.
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

impl<W: Write + AsFd> Write for Remembering<W> {
    /// Writes a record, which arrives in one piece. What a log that is not read has no room for is
    /// only stored: the agent has a lease to renew.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        remember(record);
        // A pipe that is ready takes so much at once.
        for part in record.chunks(libc::PIPE_BUF) {
            if is_ready(&self.0) {
                self.0.write_all(part)?;
            }
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_ready(log: &impl AsFd) -> bool {
    let mut asked = libc::pollfd {
        fd: log.as_fd().as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    let patience = if IS_READ.load(Relaxed) { PATIENCE } else { 0 };
    // SAFETY: the one structure lives until poll returns.
    let is_ready = unsafe { libc::poll(&raw mut asked, 1, patience) != 0 };
    IS_READ.store(is_ready, Relaxed);
    is_ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    #[test]
    fn a_log_that_is_not_read_delays_nothing_and_goes_on_once_it_is() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut log = Remembering(writer);
        let begun = Instant::now();
        for _ in 0..100 {
            log.write_all(&[b'x'; 1_024]).unwrap();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        let mut room = [0; 8_192];
        reader.read_exact(&mut room).unwrap();
        log.write_all(b"after").unwrap();
        drop(log);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"after"));
    }

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

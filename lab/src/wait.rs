//! Waiting for what holds a moment later, and threads that repeat something meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// No wait is longer: enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Asks again and again what is missing, until nothing is. After a minute that is the error; an
/// error of `missing` ends the wait.
pub fn until(every: Duration, mut missing: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    value(every, || Ok(missing()?.map_or(Ok(()), Err)))
}

/// The same for a value that is there once nothing is missing.
pub fn value<T>(every: Duration, mut ask: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask()? {
            Ok(value) => return Ok(value),
            Err(missing) => ensure!(Instant::now() < deadline, "{missing} after {PATIENCE:?}"),
        }
        thread::sleep(every);
    }
}

/// A thread that takes its turn again and again until this is dropped.
#[derive(Debug)]
pub struct Repeated {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Repeated {
    /// `begin` is called on the thread, and returns what a turn does.
    pub fn start<T: FnMut()>(begin: impl FnOnce() -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut turn = begin();
            while !stopped.load(Ordering::Relaxed) {
                turn();
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        assert!(ended.is_ok() || thread::panicking(), "a turn has panicked");
    }
}

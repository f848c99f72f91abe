//! Waiting for what holds a moment later.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// No wait is longer: enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Asks again and again until there is an answer. The inner error says what is missing, and is returned after a minute; an
/// outer error ends the wait.
pub fn until<T>(every: Duration, mut ask: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask()? {
            Ok(answer) => return Ok(answer),
            Err(missing) if Instant::now() >= deadline => bail!("{missing} after {PATIENCE:?}"),
            Err(_) => thread::sleep(every),
        }
    }
}

/// An answer for [`until`]: nothing but that it holds.
pub fn holds(holds: bool, missing: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(missing()) }
}

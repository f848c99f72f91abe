//! Waiting for what holds a moment later.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// No wait is longer: enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Asks again and again what is missing, until nothing is. After a minute that is the error; an error of `missing` ends the wait.
pub fn until(every: Duration, mut missing: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while let Some(missing) = missing()? {
        ensure!(Instant::now() < deadline, "{missing} after {PATIENCE:?}");
        thread::sleep(every);
    }
    Ok(())
}

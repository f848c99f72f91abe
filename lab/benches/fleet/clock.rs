//! The virtual clock.

use epguard::shared::clock::Clocks;
use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Starts the clock of this thread.
pub(crate) fn begin() {
    BEGAN.set(Some(Instant::now()));
}

/// The time since [`begin`], and the agents' `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Duration {
    BEGAN.get().map_or(Duration::ZERO, |began| began.elapsed())
}

/// The agents' clocks, which never jump.
pub(crate) fn clocks() -> Clocks {
    let boot = now();
    Clocks {
        boot,
        monotonic: boot,
        real: boot,
    }
}

//! Times in objects: whole seconds in UTC, as the kubelet writes them.

use jiff::{SignedDuration, Timestamp};

/// A clock that moves only on [`Clock::tick`]: changes of a status are a second apart, however fast the story runs.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Timestamp);

impl Clock {
    /// A clock that shows the current time.
    pub fn now() -> Self {
        Self(Timestamp::now())
    }

    /// A second passes.
    pub fn tick(&mut self) {
        self.0 = self.0.saturating_add(SignedDuration::from_secs(1)).unwrap_or(self.0);
    }

    /// RFC 3339 in whole seconds.
    pub fn text(&self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

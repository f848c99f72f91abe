//! How long a watch waits after a failure, and before it lists everything again. Pure: callers draw a part of each wait.

use super::protocol::End;
use std::time::Duration;

/// Ceiling of the first wait. A session waits for any part of it, so that agents that lose the server together don't
/// come back together.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Ceiling of every wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Ceiling of the waits while the server does not answer at all: such attempts cost it nothing. The watches of an
/// agent draw their waits apart from each other, and the first answer ends all of them: 0.6 s after the server's
/// return in the median.
pub(super) const LONGEST_WAIT_UNANSWERED: Duration = Duration::from_secs(10);

/// Ceiling of the wait before everything is listed again: all agents of a cluster lose the server's history at once. One
/// agent's watches wait for the same part of it.
pub(super) const RELIST: Duration = Duration::from_secs(5);
/// The same after an outage, whose waits have spread the agents' attempts already.
pub(super) const RELIST_AFTER_OUTAGE: Duration = Duration::from_millis(2500);

/// The waits of one watch so far.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// How many times the history was gone since a stream last lasted.
    expiries: u32,
}

impl Backoff {
    /// A request lasted: failures before it are no reason to wait longer; nor are lost histories, if it showed changes.
    pub(super) fn lasted(&mut self, followed: bool) {
        self.failures = 0;
        if followed {
            self.expiries = 0;
        }
    }

    /// Ceiling of the wait after a failure: twice as long each time.
    pub(super) fn after_failure(&mut self, end: End) -> Duration {
        let wait = self.next();
        self.failures = self.failures.saturating_add(1);
        wait.min(if end == End::Unanswered { LONGEST_WAIT_UNANSWERED } else { LONGEST_WAIT })
    }

    /// Ceiling of the wait before everything is listed again. The server answers: earlier failures are no reason to wait.
    pub(super) fn after_expiry(&mut self) -> Duration {
        let is_outage = self.next() / 2 >= RELIST;
        self.failures = 0;
        let wait = if is_outage { RELIST_AFTER_OUTAGE } else { RELIST };
        let wait = wait.saturating_mul(2u32.saturating_pow(self.expiries));
        self.expiries = self.expiries.saturating_add(1);
        wait.min(LONGEST_WAIT)
    }

    fn next(&self) -> Duration {
        FIRST_WAIT.saturating_mul(2u32.saturating_pow(self.failures))
    }
}

//! How long an agent was without a lease.

use std::time::Duration;

/// The lease of one agent, and its lapses since [`Lapse::begin`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Lapse {
    /// The end of the last lease.
    until: Duration,
    /// The longest time without a lease.
    longest: Duration,
    /// The oldest view.
    oldest: Duration,
    /// As of when the view was last complete.
    as_of: Duration,
    /// Denials that are carried out now, and the most that waited for a list.
    pub(crate) denied: usize,
    pub(crate) pending: usize,
}

impl Lapse {
    /// Of an agent that starts now.
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            until: now,
            as_of: now,
            ..Self::default()
        }
    }

    /// Begins to measure.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.until = self.until.max(now);
        (self.longest, self.oldest, self.pending) = (Duration::ZERO, Duration::ZERO, 0);
    }

    /// Notes the present: the new end of the lease, if it changed, and the view's age.
    pub(crate) fn note(&mut self, now: Duration, renewed: Option<Duration>, age: Option<Duration>) {
        self.longest = self.longest.max(now.saturating_sub(self.until));
        self.oldest = self.oldest.max(now.saturating_sub(self.as_of));
        match renewed {
            Some(deadline) if deadline > now => self.until = deadline,
            Some(_) => self.until = self.until.min(now),
            None => {}
        }
        if let Some(age) = age {
            self.as_of = self.as_of.max(now.saturating_sub(age));
        }
    }

    /// The longest time without a lease, and the oldest view.
    pub(crate) fn longest(&self, now: Duration) -> (Duration, Duration) {
        let mut last = *self;
        last.note(now, None, None);
        (last.longest, last.oldest)
    }
}

//! When a consistent list confirms that a watch misses nothing. Pure.

use super::list::Glimpse;
use std::time::Duration;
use tokio::time::Instant;

/// How long the stream must have been silent after the answer: the list may have overtaken events on their way.
const QUIET: Duration = Duration::from_millis(50);
/// How long the watch may take to show what the list has shown.
const CATCH_UP: Duration = Duration::from_secs(3);

/// An answer that waits for the watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) glimpse: Glimpse,
    /// When it came.
    pub(super) at: Instant,
}

/// What an answer proves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The watch has shown everything that had happened when the list was sent.
    Confirmed,
    /// Not known before then, unless the watch shows more.
    Wait(Instant),
    /// The watch doesn't show what happened before the list.
    Behind,
}

impl Answer {
    /// The list is older than what the watch had shown before.
    pub(super) fn is_rewound(&self) -> bool {
        self.glimpse.version < self.glimpse.seen
    }

    /// Judges a watch that has shown everything up to `version`, and showed something last at `heard`.
    pub(super) fn judge(&self, version: u64, heard: Instant, now: Instant) -> Verdict {
        let caught_up = version >= self.glimpse.object;
        let (until, then) = if caught_up {
            (self.at.max(heard) + QUIET, Verdict::Confirmed)
        } else {
            (self.at + CATCH_UP, Verdict::Behind)
        };
        if version >= self.glimpse.version {
            Verdict::Confirmed
        } else if now >= until {
            then
        } else {
            Verdict::Wait(until)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list was at version 20 and showed an object of version 12.
    fn answer(at: Instant) -> Answer {
        let glimpse = Glimpse {
            sent: Duration::ZERO,
            seen: 10,
            version: 20,
            object: 12,
        };
        Answer { glimpse, at }
    }

    #[test]
    fn a_watch_that_has_shown_the_lists_version_is_confirmed_at_once() {
        let now = Instant::now();
        assert_eq!(answer(now).judge(20, now, now), Verdict::Confirmed);
    }

    #[test]
    fn a_watch_of_which_nothing_more_comes_is_confirmed_when_it_has_been_quiet() {
        let at = Instant::now();
        let quiet = Verdict::Wait(at + QUIET);
        assert_eq!(answer(at).judge(12, at - QUIET, at), quiet);
        let heard = at + QUIET / 2;
        assert_eq!(
            answer(at).judge(13, heard, at + QUIET),
            Verdict::Wait(heard + QUIET)
        );
        assert_eq!(answer(at).judge(13, heard, heard + QUIET), Verdict::Confirmed);
    }

    #[test]
    fn a_watch_that_lacks_the_lists_object_has_a_moment_to_catch_up() {
        let at = Instant::now();
        let wait = Verdict::Wait(at + CATCH_UP);
        assert_eq!(answer(at).judge(11, at, at + QUIET), wait);
        assert_eq!(answer(at).judge(11, at, at + CATCH_UP), Verdict::Behind);
    }

    #[test]
    fn a_list_is_rewound_if_older_than_what_was_seen_when_it_was_sent() {
        let mut answer = answer(Instant::now());
        assert!(!answer.is_rewound());
        answer.glimpse.seen = 21;
        assert!(answer.is_rewound());
    }
}

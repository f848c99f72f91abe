//! Decides what to ask the API server next. Pure: no client, no clock, no randomness.

use super::backoff::{Backoff, RELIST};
use super::freshness_check::Shown;
use super::step::{End, Step};
use std::time::Duration;

/// A stream that closes sooner counts as a failed attempt. Otherwise a server that closes at once
/// would be asked in a loop.
const SETTLED: Duration = Duration::from_secs(1);

/// The state of a watch between its requests.
#[derive(Debug, Default)]
pub(super) struct Protocol {
    /// The version from which a watch can resume; none before everything was listed.
    version: Option<u64>,
    /// Version 0 accepts any list as new enough, after the API went back.
    pub(super) shown: Shown,
    /// How everything is listed. Where the pages of a list outlasted the server's history, the next
    /// list has but one.
    lists: Step,
    answered: bool,
    /// The request has shown something after the list.
    followed: bool,
    backoff: Backoff,
}

impl Protocol {
    /// The next request.
    pub(super) fn begin(&mut self) -> Step {
        self.answered = false;
        self.followed = false;
        match self.version {
            Some(version) => Step::Watch(version),
            None => self.lists,
        }
    }

    /// Takes in a complete list as of `version`.
    pub(super) fn list_received(&mut self, version: u64, objects: usize) {
        self.shown = Shown {
            version,
            objects: Some(objects),
        };
        self.version = Some(version);
        self.answered = true;
        if self.lists == Step::List {
            self.lists = Step::Pages;
        }
    }

    /// Takes in an event or a bookmark of a stream of changes.
    pub(super) fn advance(&mut self, version: u64) {
        self.shown.version = self.shown.version.max(version);
        self.version = Some(version);
        self.answered = true;
        self.followed = true;
    }

    /// Counts one object more or fewer that the stream showed. `None`: a line of the stream could
    /// not be read.
    pub(super) fn count_object(&mut self, change: Option<isize>) {
        let objects = self.shown.objects.zip(change);
        self.shown.objects =
            objects.and_then(|(objects, change)| objects.checked_add_signed(change));
    }

    /// Ends a request, `lived` after it was sent. Returns the longest time to wait before the next
    /// one.
    pub(super) fn end(&mut self, end: End, lived: Duration) -> Duration {
        if self.answered && lived >= SETTLED {
            // A list that takes long does not show that the history lasts.
            self.backoff.lasted(self.followed);
        }
        let listing = self.version.is_none();
        let unanswered = end == End::Silent && !self.answered;
        let is_unusable = unanswered || matches!(end, End::Closed | End::Unsupported);
        if listing && is_unusable && self.lists == Step::Stream {
            self.lists = Step::Pages;
        }
        match end {
            End::Listed | End::Unsupported => Duration::ZERO,
            End::Closed if !listing && lived >= SETTLED => Duration::ZERO,
            End::Relist => {
                self.version = None;
                Duration::ZERO
            }
            End::Expired => {
                self.version = None;
                if listing && self.lists == Step::Pages {
                    // As client-go's pager does (`FullListIfExpired`).
                    self.lists = Step::List;
                }
                self.backoff.after_expiry()
            }
            // Bookmarks come once a minute. A server that sends none from here on either never will
            // in this list form, or its own version went back behind ours (etcd restored): both
            // need a new list.
            _ if unanswered => {
                self.version = None;
                self.backoff.after_failure(end).max(RELIST)
            }
            _ => self.backoff.after_failure(end),
        }
    }
}

#[cfg(test)]
mod tests;

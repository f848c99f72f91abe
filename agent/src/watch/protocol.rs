//! What to ask the API server next. Pure: no client, no clock, no randomness.

use std::time::Duration;

/// A stream that closes sooner counts as a failed attempt, or a server that closes at once would be asked in a loop.
const SETTLED: Duration = Duration::from_secs(1);
/// Ceiling of the first wait; a session waits for any part of it, so that agents that lose the server together don't
/// come back together.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Ceiling of every wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Ceiling of the wait before everything is listed again: all agents of a cluster lose the server's history at once.
const RELIST: Duration = Duration::from_secs(5);

/// One request to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Everything as events, then changes (KEP-3157 `WatchList`, the server's default since 1.34).
    Stream,
    /// Everything in pages.
    List,
    /// Changes after a resourceVersion.
    Watch(u64),
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All pages were read.
    Listed,
    /// The server closed the stream in order, as it does after every timeout.
    Closed,
    /// 410: the history before a resourceVersion, or the snapshot under a continue token, is gone.
    Expired,
    /// The server doesn't stream lists.
    Unsupported,
    /// Neither event nor bookmark for so long that the connection must be dead.
    Silent,
    /// Anything else.
    Failed,
}

/// Where a watch stands between its requests.
#[derive(Debug, Default)]
pub(super) struct Protocol {
    /// Where a watch can resume; none before everything was listed.
    version: Option<u64>,
    highest: u64,
    /// How many objects the watch has shown, as long as that is sure.
    objects: Option<usize>,
    paged: bool,
    heard: bool,
    failures: u32,
}

impl Protocol {
    /// The next request.
    pub(super) fn begin(&mut self) -> Step {
        self.heard = false;
        match self.version {
            Some(version) => Step::Watch(version),
            None if self.paged => Step::List,
            None => Step::Stream,
        }
    }

    /// Everything was listed as of `version`. Returns the version seen before if time went back.
    pub(super) fn listed(&mut self, version: u64, objects: usize) -> Option<u64> {
        self.objects = Some(objects);
        let before = (version < self.highest).then_some(self.highest);
        self.highest = version;
        self.version = Some(version);
        self.heard = true;
        before
    }

    /// An event or a bookmark of a stream that shows changes. Whether it is newer than everything before.
    pub(super) fn advance(&mut self, version: u64) -> bool {
        let newer = version > self.highest;
        self.highest = self.highest.max(version);
        self.version = Some(version);
        self.heard = true;
        newer
    }

    /// The stream showed one object more or fewer; `None`: a line of it could not be read.
    pub(super) fn count(&mut self, change: Option<isize>) {
        self.objects = self
            .objects
            .zip(change)
            .and_then(|(objects, change)| objects.checked_add_signed(change));
    }

    /// How many objects there are as of [`Protocol::highest`]; none if that is not sure.
    pub(super) fn objects(&self) -> Option<usize> {
        self.objects
    }

    /// The newest resourceVersion seen.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Time went back, which is known by now: any list is new enough.
    pub(super) fn rewound(&mut self) {
        self.highest = 0;
    }

    /// The request is over, `lived` after it was sent. Returns the longest time to wait before the next one.
    pub(super) fn end(&mut self, end: End, lived: Duration) -> Duration {
        if self.heard && lived >= SETTLED {
            self.failures = 0;
        }
        let listing = self.version.is_none();
        let mut wait = FIRST_WAIT.saturating_mul(2u32.saturating_pow(self.failures));
        match end {
            End::Listed => return Duration::ZERO,
            End::Closed if listing => self.paged = true,
            End::Closed if lived >= SETTLED => return Duration::ZERO,
            End::Unsupported => {
                self.paged = true;
                return Duration::ZERO;
            }
            End::Expired => {
                self.version = None;
                wait = wait.max(RELIST);
            }
            // Bookmarks come once a minute. A server that sends none from here on either never will in this list
            // form, or its own version went back behind ours (etcd restored): both need a new list.
            End::Silent if !self.heard => {
                self.paged |= listing;
                self.version = None;
                wait = wait.max(RELIST);
            }
            End::Closed | End::Silent | End::Failed => {}
        }
        self.failures = self.failures.saturating_add(1);
        wait.min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(5);

    fn following(version: u64) -> Protocol {
        let mut protocol = Protocol::default();
        protocol.begin();
        protocol.listed(version, 1);
        protocol
    }

    #[test]
    fn a_watch_begins_with_a_streamed_list() {
        assert_eq!(Protocol::default().begin(), Step::Stream);
    }

    #[test]
    fn a_server_that_streams_no_lists_is_asked_for_pages_at_once_and_ever_after() {
        let mut protocol = Protocol::default();
        protocol.begin();
        assert_eq!(protocol.end(End::Unsupported, Duration::ZERO), Duration::ZERO);
        assert_eq!(protocol.begin(), Step::List);
        protocol.listed(7, 1);
        assert_eq!(protocol.end(End::Listed, Duration::ZERO), Duration::ZERO);
        assert_eq!(protocol.begin(), Step::Watch(7));
        protocol.end(End::Expired, LONG);
        assert_eq!(protocol.begin(), Step::List);
    }

    #[test]
    fn a_streamed_list_that_is_never_completed_gives_way_to_pages() {
        for end in [End::Closed, End::Silent] {
            let mut protocol = Protocol::default();
            protocol.begin();
            protocol.end(end, LONG);
            assert_eq!(protocol.begin(), Step::List, "{end:?}");
        }
    }

    #[test]
    fn a_closed_stream_resumes_at_once_from_the_last_version_seen() {
        let mut protocol = following(7);
        protocol.advance(9);
        assert_eq!(protocol.end(End::Closed, LONG), Duration::ZERO);
        assert_eq!(protocol.begin(), Step::Watch(9));
    }

    #[test]
    fn a_server_that_closes_at_once_is_not_asked_in_a_loop() {
        let mut protocol = following(7);
        let waits = [(); 3].map(|()| {
            protocol.begin();
            protocol.advance(8);
            protocol.end(End::Closed, Duration::ZERO)
        });
        assert_eq!(waits, [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4]);
    }

    #[test]
    fn an_error_resumes_and_expiry_lists_again() {
        let mut protocol = following(7);
        assert_eq!(protocol.end(End::Failed, LONG), FIRST_WAIT);
        assert_eq!(protocol.begin(), Step::Watch(7));
        protocol.end(End::Expired, LONG);
        assert_eq!(protocol.begin(), Step::Stream);
    }

    #[test]
    fn silence_resumes_once_and_then_lists_again() {
        let mut protocol = following(7);
        protocol.end(End::Silent, LONG);
        assert_eq!(protocol.begin(), Step::Watch(7));
        protocol.end(End::Silent, LONG);
        assert_eq!(protocol.begin(), Step::Stream);
    }

    #[test]
    fn waits_double_up_to_the_ceiling_and_start_over_after_a_stream_that_held() {
        let mut protocol = following(7);
        let mut fail = |lived, heard| {
            protocol.begin();
            if heard {
                protocol.advance(8);
            }
            protocol.end(End::Failed, lived)
        };
        let waits: Vec<Duration> = (0..40).map(|_| fail(Duration::ZERO, false)).collect();
        assert_eq!(waits[..3], [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4]);
        assert_eq!(waits[39], LONGEST_WAIT);
        assert_eq!(fail(LONG, false), LONGEST_WAIT);
        assert_eq!(fail(LONG, true), FIRST_WAIT);
    }

    /// When each of 1000 agents that lost the server at 0 asks it for everything again: it is back after `outage`, without
    /// its history.
    fn relists(outage: Duration) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(1);
        let mut relist = || {
            let (mut protocol, mut now) = (following(7), Duration::ZERO);
            let mut end = End::Closed;
            loop {
                now += protocol.end(end, Duration::ZERO).mul_f64(random.f64());
                end = match protocol.begin() {
                    Step::Stream | Step::List => return now,
                    Step::Watch(_) if now < outage => End::Failed,
                    Step::Watch(_) => End::Expired,
                };
            }
        };
        (0..1000).map(|_| relist()).collect()
    }

    #[test]
    fn after_an_outage_a_thousand_agents_do_not_list_at_the_same_moment() {
        for outage in [0, 5, 60, 300].map(Duration::from_secs) {
            let relists = relists(outage);
            let within = |at: &Duration| {
                let close = |other: &&Duration| at.abs_diff(**other) <= Duration::from_millis(500);
                relists.iter().filter(close).count()
            };
            let busiest = relists.iter().map(within).max().unwrap();
            assert!(
                busiest < 300,
                "{busiest} of 1000 within a second, after {outage:?}"
            );
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_leaves_the_number_of_objects_unknown_until_the_next_list() {
        let mut protocol = following(7);
        protocol.count(Some(1));
        assert_eq!(protocol.objects(), Some(2));
        protocol.count(None);
        protocol.count(Some(-1));
        assert_eq!(protocol.objects(), None);
        protocol.listed(9, 4);
        assert_eq!(protocol.objects(), Some(4));
    }

    #[test]
    fn a_list_older_than_what_was_seen_is_reported_once() {
        let mut protocol = following(7);
        protocol.advance(9);
        assert_eq!(protocol.listed(8, 1), Some(9));
        assert_eq!(protocol.listed(8, 1), None);
    }
}

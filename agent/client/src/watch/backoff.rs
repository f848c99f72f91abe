//! How long a watch waits after a failure, and before it lists everything again.
//!
//! The waits of all watches end once one of them reaches the server after an outage: one server
//! answers them all. Otherwise each would wait for up to half a minute more, and the view is as old
//! as the last of them.

use super::step::End;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Shortest outage. Watches that come and go would otherwise end each other's waits all the time.
const OUTAGE: Duration = Duration::from_secs(2);

/// Ceiling of the first wait. A session waits for any part of it, so that agents that lose the
/// server together don't come back together.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Ceiling of every wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Ceiling of the waits while the server does not answer at all: such attempts cost it nothing. The
/// watches of an agent draw their waits apart from each other, and the first answer ends all of
/// them: 0.6 s after the server's return in the median.
pub(super) const LONGEST_WAIT_UNANSWERED: Duration = Duration::from_secs(10);

/// Ceiling of the wait before everything is listed again: all agents of a cluster lose the server's
/// history at once. One agent's watches wait for the same part of it.
pub(super) const RELIST: Duration = Duration::from_secs(5);
/// The same after an outage, whose waits have spread the agents' attempts already.
pub(super) const RELIST_AFTER_OUTAGE: Duration = Duration::from_millis(2500);

/// The waits of one watch so far. Pure: callers draw a part of each.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// How many times the history was gone since a stream last lasted.
    expiries: u32,
}

impl Backoff {
    /// A request lasted: failures before it are no reason to wait longer; nor are lost histories,
    /// if it showed changes.
    pub(super) fn lasted(&mut self, followed: bool) {
        self.failures = 0;
        if followed {
            self.expiries = 0;
        }
    }

    /// Ceiling of the wait after a failure: twice as long each time.
    pub(super) fn after_failure(&mut self, end: End) -> Duration {
        let wait = self.next_wait();
        self.failures = self.failures.saturating_add(1);
        let longest = if end == End::Unanswered {
            LONGEST_WAIT_UNANSWERED
        } else {
            LONGEST_WAIT
        };
        wait.min(longest)
    }

    /// Ceiling of the wait before everything is listed again. The server answers: earlier failures
    /// are no reason to wait.
    pub(super) fn after_expiry(&mut self) -> Duration {
        let is_outage = self.next_wait() / 2 >= RELIST;
        self.failures = 0;
        let first_wait = if is_outage {
            RELIST_AFTER_OUTAGE
        } else {
            RELIST
        };
        let wait = first_wait.saturating_mul(2u32.saturating_pow(self.expiries));
        self.expiries = self.expiries.saturating_add(1);
        wait.min(LONGEST_WAIT)
    }

    fn next_wait(&self) -> Duration {
        FIRST_WAIT.saturating_mul(2u32.saturating_pow(self.failures))
    }
}

/// The state that the watches of one server share.
#[derive(Debug, Default)]
pub(super) struct Server {
    answers: watch::Sender<()>,
    relist: Mutex<Option<Relist>>,
}

/// When this agent lists everything again.
#[derive(Debug, Clone, Copy)]
struct Relist {
    lists_at: Instant,
    drawn_at: Instant,
}

impl Relist {
    /// Draws a moment up to `ceiling` from now.
    fn draw(ceiling: Duration) -> Self {
        let now = Instant::now();
        Self {
            lists_at: now + ceiling.mul_f64(fastrand::f64()),
            drawn_at: now,
        }
    }
}

impl Server {
    /// The moment at which all watches list again. The first of them that asks draws it.
    fn next_relist(&self, ceiling: Duration) -> Instant {
        let shared = self.relist.lock();
        let mut shared = shared.unwrap_or_else(PoisonError::into_inner);
        match *shared {
            Some(relist) if relist.drawn_at.elapsed() < RELIST => relist.lists_at,
            _ => shared.insert(Relist::draw(ceiling)).lists_at,
        }
    }
}

/// The part of one watch: since when it is down, and the signals of the other watches.
pub(super) struct Waits {
    down: Option<Instant>,
    server: Arc<Server>,
    answers: watch::Receiver<()>,
}

impl Waits {
    /// For a watch of the same server as all others that share `server`.
    pub(super) fn new(server: &Arc<Server>) -> Self {
        Self {
            down: None,
            server: Arc::clone(server),
            answers: server.answers.subscribe(),
        }
    }

    /// Begins a request: earlier signals of other watches do not apply to it.
    pub(super) fn begin(&mut self) {
        self.answers.mark_unchanged();
    }

    /// Records that the watch is down.
    pub(super) fn down(&mut self) {
        self.down.get_or_insert_with(Instant::now);
    }

    /// Records that the watch is up. After an outage, ends the waits of the other watches.
    pub(super) fn up(&mut self) {
        let Some(since) = self.down else {
            return;
        };
        self.down = None;
        if since.elapsed() >= OUTAGE {
            self.server.answers.send_replace(());
        }
    }

    /// Waits for any time up to `ceiling`, because the server answers but its history is gone. The
    /// watches of an agent lose the history together, and its view is as old as the last list. So
    /// they wait for the same moment; agents wait for different ones. A watch whose history is gone
    /// again waits longer, by itself.
    pub(super) async fn relist(&mut self, ceiling: Duration) {
        self.up();
        let lists_at = if ceiling > RELIST {
            Relist::draw(ceiling).lists_at
        } else {
            self.server.next_relist(ceiling)
        };
        sleep_until(lists_at).await;
    }

    /// Waits for any time up to `ceiling`, but not much longer than until another watch is up
    /// again.
    pub(super) async fn wait(&mut self, ceiling: Duration) {
        let answered = async {
            // An error would mean that the sender is gone, but it is ours.
            let _ = self.answers.changed().await;
            sleep(FIRST_WAIT.mul_f64(fastrand::f64())).await;
        };
        tokio::select! {
            () = sleep(ceiling.mul_f64(fastrand::f64())) => {}
            () = answered => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    const LONG: Duration = Duration::from_hours(1000);

    fn two() -> [Waits; 2] {
        let server = Arc::default();
        [Waits::new(&server), Waits::new(&server)]
    }

    async fn waited(one: &mut Waits) -> Duration {
        let begun = Instant::now();
        one.wait(LONG).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_up_again_after_an_outage_ends_the_waits_of_requests_sent_before() {
        for (sentence, outage, begins_before, relists, is_short) in [
            ("the first one is up", OUTAGE, true, false, true),
            ("it lists again", OUTAGE, true, true, true),
            ("later requests wait", OUTAGE / 2, false, false, false),
            ("a request after the recovery", OUTAGE, false, false, false),
        ] {
            let [mut first, mut other] = two();
            first.down();
            if begins_before {
                other.begin();
            }
            sleep(outage).await;
            if relists {
                first.relist(RELIST).await;
            } else {
                first.up();
            }
            if !begins_before && outage == OUTAGE {
                other.begin();
            }
            assert_eq!(
                waited(&mut other).await <= FIRST_WAIT,
                is_short,
                "{sentence}"
            );
        }
    }

    /// How long an agent of six watches takes until all of them list. They lose the history within
    /// 1.5 s.
    async fn relists() -> Duration {
        let (server, begun) = (Arc::default(), Instant::now());
        let mut watches = JoinSet::new();
        for number in 0..6 {
            let mut watch = Waits::new(&server);
            watches.spawn(async move {
                sleep(Duration::from_millis(250) * number).await;
                watch.relist(RELIST).await;
            });
        }
        watches.join_all().await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_agents_watches_list_together_and_agents_do_not() {
        let mut all = Vec::new();
        for _ in 0..501 {
            all.push(relists().await);
        }
        all.sort();
        let median = all[250];
        assert!(median < Duration::from_secs(3), "{median:?}");
        let close = |at: &Duration| {
            all.iter()
                .filter(|other| at.abs_diff(**other) < FIRST_WAIT)
                .count()
        };
        let late = all.iter().filter(|at| **at > Duration::from_secs(2));
        let busiest = late.map(close).max().unwrap();
        assert!(busiest < 200, "{busiest} of 501 within a second");
        assert!(all[500] <= RELIST, "{:?}", all[500]);
    }
}

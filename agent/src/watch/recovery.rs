//! Ends the waits of all watches once one of them reaches the server after an outage: one server answers them all.
//! Otherwise each would wait for up to half a minute more, and the view is as old as the last of them.

use super::backoff::{FIRST_WAIT, RELIST};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Shortest outage. Watches that come and go would otherwise end each other's waits all the time.
const OUTAGE: Duration = Duration::from_secs(2);

/// The state that the watches of one server share.
#[derive(Debug, Clone, Default)]
pub(super) struct Server(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    answers: watch::Sender<()>,
    /// When this agent lists everything again, and when that was drawn.
    relist: Mutex<Option<(Instant, Instant)>>,
}

/// The part of one watch: since when it is down, and the signals of the other watches.
pub(super) struct Recovery {
    down: Option<Instant>,
    server: Server,
    answers: watch::Receiver<()>,
}

impl Recovery {
    /// For a watch of the same server as all others that share `server`.
    pub(super) fn new(server: &Server) -> Self {
        Self { down: None, server: server.clone(), answers: server.0.answers.subscribe() }
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
        if self.down.take().is_some_and(|since| since.elapsed() >= OUTAGE) {
            self.server.0.answers.send_replace(());
        }
    }

    /// Waits for any time up to `ceiling`, because the server answers but its history is gone. The watches of an
    /// agent lose the history together, and its view is as old as the last list. So they wait for the same moment;
    /// agents wait for different ones. A watch whose history is gone again waits longer, by itself.
    pub(super) async fn relist(&mut self, ceiling: Duration) {
        self.up();
        let now = Instant::now();
        let draw = || (now + ceiling.mul_f64(fastrand::f64()), now);
        let (at, _) = if ceiling > RELIST {
            draw()
        } else {
            let shared = self.server.0.relist.lock();
            let mut shared = shared.unwrap_or_else(PoisonError::into_inner);
            let drawn = shared.take_if(|(_, drawn)| drawn.elapsed() < RELIST);
            *shared.insert(drawn.unwrap_or_else(draw))
        };
        sleep_until(at).await;
    }

    /// Waits for any time up to `ceiling`, but not much longer than until another watch is up again.
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

    fn two() -> [Recovery; 2] {
        let server = Server::default();
        [Recovery::new(&server), Recovery::new(&server)]
    }

    async fn waited(one: &mut Recovery) -> Duration {
        let begun = Instant::now();
        one.wait(LONG).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_watch_that_is_up_again_ends_the_waits_of_the_others() {
        let [mut first, mut other] = two();
        first.down();
        other.begin();
        sleep(OUTAGE).await;
        first.up();
        assert!(waited(&mut other).await <= FIRST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_recovery_of_one_watch_does_not_shorten_later_waits_of_others() {
        let [mut first, mut other] = two();
        first.down();
        sleep(OUTAGE / 2).await;
        first.up();
        assert!(waited(&mut other).await > FIRST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovery_before_a_request_does_not_shorten_the_wait_after_it() {
        let [mut first, mut other] = two();
        first.down();
        sleep(OUTAGE).await;
        first.up();
        other.begin();
        assert!(waited(&mut other).await > FIRST_WAIT);
    }

    /// How long an agent of six watches takes until all of them list. They lose the history within 1.5 s.
    async fn relists() -> Duration {
        let (server, begun) = (Server::default(), Instant::now());
        let mut watches = JoinSet::new();
        for number in 0..6 {
            let mut watch = Recovery::new(&server);
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
        let close = |at: &Duration| all.iter().filter(|other| at.abs_diff(**other) < FIRST_WAIT).count();
        let late = all.iter().filter(|at| **at > Duration::from_secs(2));
        let busiest = late.map(close).max().unwrap();
        assert!(busiest < 200, "{busiest} of 501 within a second");
        assert!(all[500] <= RELIST, "{:?}", all[500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_relist_of_one_watch_ends_the_waits_of_the_others() {
        let [mut first, mut other] = two();
        first.down();
        other.begin();
        sleep(OUTAGE).await;
        first.relist(RELIST).await;
        assert!(waited(&mut other).await <= FIRST_WAIT);
    }
}

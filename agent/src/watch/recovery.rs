//! One server answers all watches, so the first that hears from it after an outage ends the others' waits: each would
//! wait for up to half a minute more otherwise, and the view is as old as the last of them.

use super::protocol::FIRST_WAIT;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Shorter ones are no outage: watches that come and go would keep each other from waiting.
const OUTAGE: Duration = Duration::from_secs(2);

/// What one watch knows of the server, and tells the others.
pub(super) struct Recovery {
    down: Option<Instant>,
    answers: watch::Sender<()>,
    heard: watch::Receiver<()>,
}

impl Recovery {
    /// For a watch of the same server as all others that share `answers`.
    pub(super) fn new(answers: &watch::Sender<()>) -> Self {
        Self {
            down: None,
            answers: answers.clone(),
            heard: answers.subscribe(),
        }
    }

    /// A request begins: what was told before says nothing about it.
    pub(super) fn begin(&mut self) {
        self.heard.mark_unchanged();
    }

    /// The watch is down.
    pub(super) fn down(&mut self) {
        self.down.get_or_insert_with(Instant::now);
    }

    /// The watch is up.
    pub(super) fn up(&mut self) {
        if self.down.take().is_some_and(|since| since.elapsed() >= OUTAGE) {
            self.answers.send_replace(());
        }
    }

    /// Waits for any time up to `ceiling`, but not much longer than until another watch is up again.
    pub(super) async fn wait(&mut self, ceiling: Duration) {
        let heard = async {
            // An error would mean that nobody can tell any more, and the sender is ours.
            let _ = self.heard.changed().await;
            sleep(FIRST_WAIT.mul_f64(fastrand::f64())).await;
        };
        tokio::select! {
            () = sleep(ceiling.mul_f64(fastrand::f64())) => {}
            () = heard => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1000);

    fn two() -> [Recovery; 2] {
        let answers = watch::Sender::new(());
        [Recovery::new(&answers), Recovery::new(&answers)]
    }

    async fn waited(one: &mut Recovery) -> Duration {
        let begun = Instant::now();
        one.wait(LONG).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_watch_that_is_up_again_ends_the_others_waits() {
        let [mut first, mut other] = two();
        first.down();
        other.begin();
        sleep(OUTAGE).await;
        first.up();
        assert!(waited(&mut other).await <= FIRST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_come_and_go_wait_as_they_would_alone() {
        let [mut first, mut other] = two();
        first.down();
        sleep(OUTAGE / 2).await;
        first.up();
        assert!(waited(&mut other).await > FIRST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_before_a_request_says_nothing_about_its_end() {
        let [mut first, mut other] = two();
        first.down();
        sleep(OUTAGE).await;
        first.up();
        other.begin();
        assert!(waited(&mut other).await > FIRST_WAIT);
    }
}

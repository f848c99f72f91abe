//! Takes the messages of the watches. When many come, it waits a little for more of them: each turn of the loop writes the
//! maps, the history and the lease once, however many changes it applies.

use crate::watch::Message;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

/// Most messages that wait for the loop, and that it takes at once. The watches wait when it is full.
pub(super) const BACKLOG: usize = 4096;

/// Messages for which the loop waits a millisecond afterwards. Fewer at once are no crowd: the next is taken as it comes.
const CROWD: usize = 2;

/// The longest wait: what a change waits longer for its write.
const LONGEST: Duration = Duration::from_millis(4);

/// When messages are taken next.
#[derive(Debug, Default)]
pub(super) struct Gather {
    next: Option<Instant>,
}

impl Gather {
    /// Waits for messages and takes them, at most [`BACKLOG`]. None once all senders are gone. Safe to cancel.
    pub async fn take(&mut self, messages: &mut Receiver<Message>) -> Option<Vec<Message>> {
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        let mut batch = vec![messages.recv().await?];
        while batch.len() < BACKLOG
            && let Ok(message) = messages.try_recv()
        {
            batch.push(message);
        }
        // The watches wait while the channel is full.
        let is_full = batch.len() == BACKLOG;
        let wait = wait_after(batch.len()).filter(|_| !is_full);
        self.next = wait.map(|wait| Instant::now() + wait);
        Some(batch)
    }
}

/// How long to wait after so many messages.
fn wait_after(messages: usize) -> Option<Duration> {
    let wait = u64::try_from(messages / CROWD).map_or(LONGEST, Duration::from_millis);
    Some(wait.min(LONGEST)).filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Event;
    use epguard_core::facts::Watched;
    use tokio::sync::mpsc::{Sender, channel};

    fn message() -> Message {
        let (watch, event) = (Watched::Pods, Event::Up);
        Message { watch, event }
    }

    fn send(sender: &Sender<Message>, count: usize) {
        for _ in 0..count {
            sender.try_send(message()).unwrap();
        }
    }

    /// How long the next message after `first` ones waits, and how many come with it if as many arrive meanwhile.
    async fn after(first: usize) -> (Duration, usize) {
        let (sender, mut messages) = channel(64);
        let mut gather = Gather::default();
        send(&sender, first);
        assert_eq!(gather.take(&mut messages).await.map(|batch| batch.len()), Some(first));
        let begun = Instant::now();
        send(&sender, first);
        let batch = gather.take(&mut messages).await.unwrap();
        (begun.elapsed(), batch.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_message_is_taken_at_once_and_many_wait_for_more_but_not_for_long() {
        assert_eq!(after(1).await, (Duration::ZERO, 1));
        assert_eq!(after(4).await, (Duration::from_millis(2), 4));
        assert_eq!(after(40).await, (LONGEST, 40));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_loses_no_message() {
        let (sender, mut messages) = channel(64);
        let mut gather = Gather::default();
        send(&sender, 8);
        gather.take(&mut messages).await.unwrap();
        send(&sender, 3);
        let given_up = tokio::time::timeout(Duration::from_millis(1), gather.take(&mut messages));
        assert!(given_up.await.is_err());
        assert_eq!(gather.take(&mut messages).await.map(|batch| batch.len()), Some(3));
    }
}

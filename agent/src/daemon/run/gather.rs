//! When the loop takes messages. When many come, it waits a little for more of them: each turn
//! writes the maps, the history and the lease once, however many changes it applies.

use crate::watch::Message;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

/// Messages for which the loop waits a millisecond afterwards. Fewer at once are no crowd: the next
/// is taken as it comes.
const CROWD: usize = 2;

/// The longest wait: what a change waits longer for its write.
const LONGEST: Duration = Duration::from_millis(4);

/// When messages are taken next.
#[derive(Debug, Default)]
pub struct Gather {
    next: Option<Instant>,
    /// The message that ended the wait.
    first: Option<Message>,
}

impl Gather {
    /// Waits until messages are to be taken. None once all senders are gone. Safe to cancel.
    pub(super) async fn wait(&mut self, messages: &mut Receiver<Message>) -> Option<()> {
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        if self.first.is_none() {
            self.first = Some(messages.recv().await?);
        }
        Some(())
    }

    /// Takes the messages that are there, at most so many.
    pub(super) fn take_messages(
        &mut self,
        messages: &mut Receiver<Message>,
        most: usize,
    ) -> Vec<Message> {
        let mut batch: Vec<Message> = Vec::new();
        while batch.len() < most
            && let Some(message) = self.first.take().or_else(|| messages.try_recv().ok())
        {
            batch.push(message);
        }
        if !batch.is_empty() {
            self.next = wait_after(batch.len()).map(|wait| Instant::now() + wait);
        }
        batch
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
    use crate::watch::WatchEvent;
    use epguard_core::facts::Watched;
    use tokio::sync::mpsc::{Sender, channel};

    fn send(sender: &Sender<Message>, count: usize) {
        for _ in 0..count {
            sender
                .try_send(Message {
                    watch: Watched::Pods,
                    event: WatchEvent::Up,
                })
                .unwrap();
        }
    }

    /// How long the next message after `first` ones waits, and how many come with it if as many
    /// arrive meanwhile.
    async fn after(first: usize) -> (Duration, usize) {
        let (sender, mut messages) = channel(64);
        let mut gather = Gather::default();
        send(&sender, first);
        assert_eq!(gather.wait(&mut messages).await, Some(()));
        assert_eq!(gather.take_messages(&mut messages, 64).len(), first);
        let begun = Instant::now();
        send(&sender, first);
        assert_eq!(gather.wait(&mut messages).await, Some(()));
        (
            begun.elapsed(),
            gather.take_messages(&mut messages, 64).len(),
        )
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
        assert_eq!(gather.take_messages(&mut messages, 64).len(), 8);
        send(&sender, 3);
        let given_up = tokio::time::timeout(Duration::from_millis(1), gather.wait(&mut messages));
        assert!(given_up.await.is_err());
        assert_eq!(gather.take_messages(&mut messages, 64).len(), 3);
    }
}

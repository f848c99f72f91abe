//! Messages of the watches that are not applied yet.

use crate::watch::{Message, WatchEvent};
use epguard_core::facts::Watched;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Messages in the order of each watch.
#[derive(Debug, Default)]
pub struct MessageQueue {
    /// Each with a greater number than those that came before.
    of_watches: BTreeMap<Watched, VecDeque<(u64, Message)>>,
    next: u64,
    count: usize,
}

impl MessageQueue {
    /// How many wait.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.of_watches
            .entry(message.watch)
            .or_default()
            .push_back((self.next, message));
        self.next += 1;
        self.count += 1;
    }

    /// Takes the message that came first, of the watches that do not wait themselves.
    pub fn take_next(&mut self, waits: impl Fn(Watched) -> bool) -> Option<Message> {
        let free = self.of_watches.values_mut().filter(|messages| {
            let first = messages.front();
            first.is_some_and(|(_, message)| !waits(message.watch))
        });
        let first = free.min_by_key(|messages| messages.front().map(|(number, _)| *number))?;
        let (_, message) = first.pop_front()?;
        self.count -= 1;
        Some(message)
    }

    /// How long the fact has waited that was received first; none if none waits.
    pub fn longest(&self) -> Option<Duration> {
        let first = self.of_watches.values().filter_map(|messages| {
            messages
                .iter()
                .find_map(|(_, message)| match &message.event {
                    WatchEvent::Fact { received, .. } => Some(*received),
                    _ => None,
                })
        });
        first.min().map(|received| received.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    fn fact(watch: Watched, received: Instant) -> Message {
        let fact = Box::new(watch.empty());
        Message {
            watch,
            event: WatchEvent::Fact {
                received,
                sent: None,
                rv: 1,
                fact,
            },
        }
    }

    #[test]
    fn messages_come_in_their_order_but_not_before_the_list_of_their_watch_is_applied() {
        let mut waiting = MessageQueue::default();
        let now = Instant::now();
        for watch in [
            Watched::Services,
            Watched::Pods,
            Watched::Services,
            Watched::Nodes,
        ] {
            waiting.push(fact(watch, now));
        }
        let mut take = |applies: Option<Watched>| {
            waiting
                .take_next(|watch| Some(watch) == applies)
                .map(|message| message.watch)
        };
        assert_eq!(take(Some(Watched::Services)), Some(Watched::Pods));
        assert_eq!(take(Some(Watched::Services)), Some(Watched::Nodes));
        assert_eq!(take(Some(Watched::Services)), None);
        assert_eq!(
            [take(None), take(None), take(None)],
            [Some(Watched::Services), Some(Watched::Services), None]
        );
        assert_eq!(waiting.count(), 0);
    }

    #[test]
    fn the_longest_wait_is_that_of_the_fact_that_was_received_first() {
        let mut waiting = MessageQueue::default();
        let now = Instant::now();
        let before = |seconds| now.checked_sub(Duration::from_secs(seconds)).unwrap();
        assert_eq!(waiting.longest(), None);
        waiting.push(Message {
            watch: Watched::Pods,
            event: WatchEvent::Up,
        });
        assert_eq!(waiting.longest(), None, "no fact");
        waiting.push(fact(Watched::Pods, before(2)));
        waiting.push(fact(Watched::Nodes, before(5)));
        assert!(waiting.longest() >= Some(Duration::from_secs(5)));
        waiting.take_next(|watch| watch == Watched::Pods);
        assert!(waiting.longest() < Some(Duration::from_secs(5)));
    }
}

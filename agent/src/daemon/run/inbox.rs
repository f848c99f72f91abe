//! Selects what the loop does next. Inputs that a tenant can produce in large numbers come after those that keep the
//! node protected.
//!
//! When many messages of the watches come, it waits a little for more of them: each turn of the loop writes the maps, the history and
//! the lease once, however many changes it applies.

use crate::node::netlink::Event as LinkEvent;
use crate::shared::status::Question;
use crate::watch::Message;
use anyhow::Result;
use epguard_common::Event;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, sleep_until};

/// One thing to do.
#[derive(Debug)]
pub(super) enum Turn {
    /// Renews the lease, attaches again, and does the periodic work.
    Tick,
    /// An interface came or went, or an address or route of the node.
    Interface(LinkEvent),
    /// More of a list, or of messages that were taken.
    Backlog,
    /// What the watches received, at most [`BACKLOG`] messages.
    Messages(Vec<Message>),
    /// A request of a probe, of a client of metrics or of the status socket.
    Question(Question),
    /// Packets that the programs report.
    Events(Vec<Event>),
}

/// All inputs of the loop, in the order in which it serves them.
#[derive(Debug)]
pub(super) struct Inbox<R> {
    /// The latest time to renew the lease.
    pub tick: Interval,
    /// Questions of the kubelet's probes: few, and answered at once.
    pub probes: Receiver<Question>,
    /// Events of netlink: few, and each may be an interface without hooks.
    pub interfaces: Receiver<LinkEvent>,
    /// Messages of the watches.
    pub messages: Receiver<Message>,
    /// When they are taken.
    pub gather: Gather,
    /// All other questions.
    pub questions: Receiver<Question>,
    /// Waits for reports of the programs: up to 100 a second for each suspect, for any number of suspects. Safe to cancel.
    pub reports: R,
}

impl<R: AsyncFnMut() -> Result<Vec<Event>>> Inbox<R> {
    /// Waits for the next input, or has the `backlog` done first, if there is one. Safe to cancel.
    ///
    /// Errors: those of the reports' source.
    pub async fn next(&mut self, backlog: bool) -> Result<Turn> {
        let turn = tokio::select! {
            biased;
            _ = self.tick.tick() => Turn::Tick,
            Some(question) = self.probes.recv() => Turn::Question(question),
            Some(event) = self.interfaces.recv() => Turn::Interface(event),
            () = std::future::ready(()), if backlog => Turn::Backlog,
            Some(batch) = self.gather.take(&mut self.messages) => Turn::Messages(batch),
            Some(question) = self.questions.recv() => Turn::Question(question),
            events = (self.reports)() => Turn::Events(events?),
        };
        Ok(turn)
    }
}

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
    use crate::shared::status::Request;
    use crate::watch;
    use epguard_core::facts::Watched;
    use tokio::sync::mpsc::{Sender, channel};
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::{MissedTickBehavior, advance, interval};

    const PERIOD: Duration = Duration::from_secs(1);

    fn message() -> Message {
        let (watch, event) = (Watched::Pods, watch::Event::Up);
        Message { watch, event }
    }

    /// There are always reports.
    async fn flood() -> Result<Vec<Event>> {
        Ok(vec![Event::default(); 512])
    }

    fn question(request: Request) -> Question {
        let (answer, _) = oneshot::channel();
        Question { request, answer }
    }

    fn name(turn: &Turn) -> String {
        match turn {
            Turn::Tick => "tick".into(),
            Turn::Interface(_) => "interface".into(),
            Turn::Backlog => "backlog".into(),
            Turn::Messages(messages) => format!("{} messages", messages.len()),
            Turn::Question(question) => format!("{:?}", question.request),
            Turn::Events(_) => "events".into(),
        }
    }

    fn inbox(messages: mpsc::Receiver<Message>) -> Inbox<impl AsyncFnMut() -> Result<Vec<Event>>> {
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Inbox {
            tick,
            probes: channel(1).1,
            interfaces: channel(1).1,
            messages,
            gather: Gather::default(),
            questions: channel(1).1,
            reports: flood,
        }
    }

    async fn turns<R: AsyncFnMut() -> Result<Vec<Event>>>(
        inbox: &mut Inbox<R>,
        count: usize,
        has_backlog: bool,
    ) -> Vec<String> {
        let mut turns = Vec::new();
        for _ in 0..count {
            turns.push(name(&inbox.next(has_backlog).await.unwrap()));
        }
        turns
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_reports_is_served_after_everything_else_and_ticks_first() {
        let (link, interfaces) = channel(9);
        let (sender, messages) = channel(9);
        let (probe, probes) = channel(9);
        let (ask, questions) = channel(9);
        let mut inbox = Inbox { probes, interfaces, questions, ..inbox(messages) };
        send(&sender, 2);
        ask.try_send(question(Request::Figures)).unwrap();
        link.try_send(LinkEvent::Settled).unwrap();
        probe.try_send(question(Request::Alive)).unwrap();
        let first = ["tick", "Alive", "interface", "2 messages", "Figures", "events", "events"];
        assert_eq!(turns(&mut inbox, 7, false).await, first);
        advance(PERIOD).await;
        assert_eq!(turns(&mut inbox, 2, false).await, ["tick", "events"]);
        advance(PERIOD).await;
        send(&sender, 1);
        assert_eq!(turns(&mut inbox, 2, true).await, ["tick", "backlog"], "messages wait for the backlog");
    }

    #[tokio::test(start_paused = true)]
    async fn one_turn_takes_no_more_messages_than_the_backlog_has_room_for() {
        let (sender, messages) = channel(2 * BACKLOG);
        send(&sender, BACKLOG + 1);
        assert_eq!(turns(&mut inbox(messages), 3, false).await, ["tick", "4096 messages", "1 messages"]);
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

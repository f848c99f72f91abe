//! Selects what the loop does next. Inputs that a tenant can produce in large numbers come after those that keep the
//! node protected.

use super::gather::Gather;
use crate::daemon::report::ring_buffer::Reports;
use crate::node::netlink::Event as LinkEvent;
use crate::shared::status::Question;
use crate::watch::Message;
use anyhow::Result;
use epguard_common::Event;
use tokio::sync::mpsc::Receiver;
use tokio::time::Interval;

/// One thing to do.
#[derive(Debug)]
pub(super) enum Turn {
    /// Renews the lease, attaches again, and does the periodic work.
    Tick,
    /// An interface came or went, or an address or route of the node.
    Interface(LinkEvent),
    /// More of a list, or of messages that were taken.
    Backlog,
    /// What the watches received, at most [`BACKLOG`](super::gather::BACKLOG) messages.
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
    /// Reports of the programs: up to 100 a second for each suspect, for any number of suspects.
    pub reports: R,
}

impl<R: Reports> Inbox<R> {
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
            events = self.reports.next() => Turn::Events(events?),
        };
        Ok(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::gather::BACKLOG;
    use super::*;
    use crate::shared::status::Request;
    use crate::watch;
    use epguard_core::facts::Watched;
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};
    use tokio::time::{MissedTickBehavior, advance, interval};

    fn message() -> Message {
        let (watch, event) = (Watched::Pods, watch::Event::Up);
        Message { watch, event }
    }

    /// A source that always has reports.
    struct Flood;

    impl Reports for Flood {
        async fn next(&mut self) -> Result<Vec<Event>> {
            Ok(vec![Event::default(); 512])
        }
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

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_reports_is_served_after_everything_else_and_ticks_first() {
        let (link, interfaces) = mpsc::channel(9);
        let (sender, messages) = mpsc::channel(9);
        let (probe, probes) = mpsc::channel(9);
        let (ask, questions) = mpsc::channel(9);
        let period = Duration::from_secs(1);
        let mut tick = interval(period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut inbox = Inbox {
            tick,
            probes,
            interfaces,
            messages,
            gather: Gather::default(),
            questions,
            reports: Flood,
        };
        for _ in 0..2 {
            sender.try_send(message()).unwrap();
        }
        ask.try_send(question(Request::Figures)).unwrap();
        link.try_send(LinkEvent::Settled).unwrap();
        probe.try_send(question(Request::Alive)).unwrap();
        let mut turns = Vec::new();
        for _ in 0..7 {
            turns.push(name(&inbox.next(false).await.unwrap()));
        }
        assert_eq!(turns, ["tick", "Alive", "interface", "2 messages", "Figures", "events", "events"]);
        advance(period).await;
        let after: [String; 2] =
            [name(&inbox.next(false).await.unwrap()), name(&inbox.next(false).await.unwrap())];
        assert_eq!(after, ["tick", "events"]);
        advance(period).await;
        sender.try_send(message()).unwrap();
        let busy: [String; 2] =
            [name(&inbox.next(true).await.unwrap()), name(&inbox.next(true).await.unwrap())];
        assert_eq!(busy, ["tick", "backlog"], "messages wait for the backlog");
    }

    #[tokio::test(start_paused = true)]
    async fn one_turn_takes_no_more_messages_than_the_backlog_has_room_for() {
        let (sender, messages) = mpsc::channel(2 * BACKLOG);
        for _ in 0..=BACKLOG {
            sender.try_send(message()).unwrap();
        }
        let mut inbox = Inbox {
            tick: interval(Duration::from_secs(1)),
            probes: mpsc::channel(1).1,
            interfaces: mpsc::channel(1).1,
            messages,
            gather: Gather::default(),
            questions: mpsc::channel(1).1,
            reports: Flood,
        };
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push(name(&inbox.next(false).await.unwrap()));
        }
        assert_eq!(turns, ["tick", "4096 messages", "1 messages"]);
    }
}

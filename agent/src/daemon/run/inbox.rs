//! Selects what the loop does next. Inputs that a tenant can produce in large numbers come after
//! those that keep the node protected, and what may contradict a denial comes before what waits.

use super::gather::Gather;
use crate::daemon::node_thread::{NodeEvent, Snapshot};
use crate::shared::status::Question;
use crate::watch::Message;
use anyhow::Result;
use epguard_common::Event;
use futures::FutureExt as _;
use std::future::ready;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::time::Interval;

/// What the loop does next.
#[derive(Debug)]
pub enum Input {
    /// The periodic work.
    Tick,
    /// An interface came or went, or an address or route of the node.
    Node(NodeEvent),
    /// The node's thread has hooked or found something.
    Snapshot,
    /// Messages of the watches, or what waits: a part of a list, Services to judge, history.
    Work,
    /// A request of a probe, of a client of metrics or of the status socket.
    Question(Question),
    /// Packets that the programs report.
    Events(Vec<Event>),
}

/// All inputs of the loop, in the order in which it serves them.
#[derive(Debug)]
pub struct Inbox<R> {
    /// The latest time to renew the lease.
    pub tick: Interval,
    /// Questions of the kubelet's probes: few, and answered at once.
    pub probes: Receiver<Question>,
    /// Events of netlink: few, and each may be a new holder of an IP.
    pub node: Receiver<NodeEvent>,
    /// What the node's thread has done.
    pub snapshots: watch::Receiver<Arc<Snapshot>>,
    /// Messages of the watches.
    pub messages: Receiver<Message>,
    /// When they are taken.
    pub gather: Gather,
    /// All other questions.
    pub questions: Receiver<Question>,
    /// Waits for reports of the programs: up to 100 a second for each suspect, for any number of
    /// suspects. Safe to cancel.
    pub reports: R,
    /// Whether the last input was [`Input::Work`]: then another one comes first, if there is one.
    pub has_worked: bool,
}

impl<R: AsyncFnMut() -> Result<Vec<Event>>> Inbox<R> {
    /// Waits for the next input, or has the `backlog` done, if there is one. Safe to cancel.
    ///
    /// Errors: those of the reports' source.
    pub async fn next(&mut self, backlog: bool) -> Result<Input> {
        if self.has_worked {
            self.has_worked = false;
            let but_work = self.select(false, false);
            if let Some(input) = but_work.now_or_never() {
                return input;
            }
        }
        let input = self.select(true, backlog).await?;
        self.has_worked = matches!(input, Input::Work);
        Ok(input)
    }

    /// Waits for the next input: `messages` among them, or not.
    async fn select(&mut self, messages: bool, backlog: bool) -> Result<Input> {
        let input = tokio::select! {
            biased;
            _ = self.tick.tick() => Input::Tick,
            Some(question) = self.probes.recv() => Input::Question(question),
            Some(event) = self.node.recv() => Input::Node(event),
            Ok(()) = self.snapshots.changed() => Input::Snapshot,
            () = ready(()), if backlog => Input::Work,
            Some(()) = self.gather.wait(&mut self.messages), if messages => Input::Work,
            Some(question) = self.questions.recv() => Input::Question(question),
            events = (self.reports)() => Input::Events(events?),
        };
        Ok(input)
    }

    /// Takes the messages that are there, at most so many.
    pub fn take_messages(&mut self, most: usize) -> Vec<Message> {
        self.gather.take_messages(&mut self.messages, most)
    }
}

/// Most messages that the loop holds, and most that wait for it. The watches wait when they are
/// that many.
pub const BACKLOG: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::netlink::NetworkChange;
    use crate::shared::status::Request;
    use crate::watch;
    use epguard_core::facts::Watched;
    use std::time::Duration;
    use tokio::sync::mpsc::{self, Sender, channel};
    use tokio::sync::oneshot;
    use tokio::time::{MissedTickBehavior, advance, interval};

    const PERIOD: Duration = Duration::from_secs(1);

    fn message() -> Message {
        let (watch, event) = (Watched::Pods, watch::WatchEvent::Up);
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

    fn name(input: &Input) -> String {
        match input {
            Input::Tick => "tick".into(),
            Input::Node(_) => "node".into(),
            Input::Snapshot => "snapshot".into(),
            Input::Work => "work".into(),
            Input::Question(question) => format!("{:?}", question.request),
            Input::Events(_) => "events".into(),
        }
    }

    fn inbox(messages: mpsc::Receiver<Message>) -> Inbox<impl AsyncFnMut() -> Result<Vec<Event>>> {
        let mut tick = interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Inbox {
            tick,
            probes: channel(1).1,
            node: channel(1).1,
            snapshots: tokio::sync::watch::channel(Arc::default()).1,
            messages,
            gather: Gather::default(),
            questions: channel(1).1,
            reports: flood,
            has_worked: false,
        }
    }

    /// The names of the next turns. Each takes all messages.
    async fn turns<R: AsyncFnMut() -> Result<Vec<Event>>>(
        inbox: &mut Inbox<R>,
        count: usize,
        has_backlog: bool,
    ) -> Vec<String> {
        let mut turns = Vec::new();
        for _ in 0..count {
            turns.push(name(&inbox.next(has_backlog).await.unwrap()));
            inbox.take_messages(BACKLOG);
        }
        turns
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_reports_is_served_after_everything_else_and_ticks_first() {
        let (event, node) = channel(9);
        let (sender, messages) = channel(9);
        let (probe, probes) = channel(9);
        let (ask, questions) = channel(9);
        let (show, snapshots) = tokio::sync::watch::channel(Arc::default());
        let mut inbox = Inbox {
            probes,
            node,
            snapshots,
            questions,
            ..inbox(messages)
        };
        ask.try_send(question(Request::Figures)).unwrap();
        let settled = NodeEvent {
            number: 1,
            received: Duration::ZERO,
            change: NetworkChange::Settled,
        };
        event.try_send(settled).unwrap();
        probe.try_send(question(Request::Alive)).unwrap();
        show.send_replace(Arc::default());
        let first = ["tick", "Alive", "node", "snapshot"];
        assert_eq!(turns(&mut inbox, 4, false).await, first);
        send(&sender, 2);
        assert_eq!(
            turns(&mut inbox, 4, false).await,
            ["work", "Figures", "events", "events"]
        );
        advance(PERIOD).await;
        assert_eq!(turns(&mut inbox, 2, false).await, ["tick", "events"]);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_backlog_nor_a_flood_of_messages_keeps_questions_waiting() {
        let (sender, messages) = channel(9);
        let (ask, questions) = channel(9);
        let mut inbox = Inbox {
            questions,
            ..inbox(messages)
        };
        assert_eq!(turns(&mut inbox, 3, true).await, ["tick", "work", "events"]);
        for has_backlog in [true, false] {
            send(&sender, 1);
            ask.try_send(question(Request::Figures)).unwrap();
            assert_eq!(
                turns(&mut inbox, 2, has_backlog).await,
                ["work", "Figures"],
                "{has_backlog}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_takes_no_more_messages_than_the_loop_has_room_for() {
        let (sender, messages) = channel(9);
        let mut inbox = inbox(messages);
        send(&sender, 5);
        assert_eq!(
            [2, 0, 9].map(|most| inbox.take_messages(most).len()),
            [2, 0, 3]
        );
    }

    fn send(sender: &Sender<Message>, count: usize) {
        for _ in 0..count {
            sender.try_send(message()).unwrap();
        }
    }
}

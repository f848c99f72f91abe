//! Plays a burst, and checks what its clients saw and what epguard counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use epguard::shared::drops::Dropped;
use epguard_common::{Outcome, Reason};

use super::agent::Agent;
use super::format::{Action, Burst, Group};
use super::names::Names;
use super::tell::{Presenter, RunningStory};
use super::traffic::word;
use crate::counters::Counters;
use crate::figures::percentile;
use crate::traffic::{Answer, Client, ClientCall, Server};
use crate::wait;

/// Between two calls: few enough a second for epguard to report every packet.
const PACE: Duration = Duration::from_millis(40);
/// Below the second after which TCP would repeat a SYN: what is denied is one packet a call.
const TIMEOUT: Duration = Duration::from_millis(800);

/// A burst and what came of it.
#[derive(Clone, Debug)]
pub struct Played<'a> {
    /// As the story has it.
    pub burst: &'a Burst,
    /// A row for each caller, a place for each of its calls.
    pub answers: Vec<Vec<Option<Answer>>>,
    /// Rows of `epguard drops` for this burst alone; only their `openings` are.
    pub reports: Vec<Dropped>,
}

impl Played<'_> {
    /// The median latency of the calls of a group.
    pub fn median(&self, group: &Group) -> Duration {
        median(self.of(group)).unwrap_or_default()
    }

    /// The answers to the calls of a group.
    pub fn of(&self, group: &Group) -> impl Iterator<Item = &Answer> {
        let rows = self.burst.callers().zip(&self.answers);
        rows.filter(move |((of, _), _)| std::ptr::eq(*of, group))
            .flat_map(|(_, row)| row.iter().flatten())
    }

    fn calls(&self, group: &Group) -> u64 {
        u64::from(self.burst.rounds) * group.callers.len() as u64
    }
}

/// The median latency, if there is an answer.
pub fn median<'a>(answers: impl Iterator<Item = &'a Answer>) -> Option<Duration> {
    let seconds: Vec<f64> = answers.map(|answer| answer.latency.as_secs_f64()).collect();
    percentile(&seconds, 50).map(Duration::from_secs_f64)
}

/// A latency for people, who need no more than two digits of it.
pub fn milliseconds(latency: Duration) -> String {
    let number = latency.as_secs_f64() * 1000.0;
    let digits = usize::from(number < 9.95);
    format!("{number:.digits$} ms")
}

impl<'a> RunningStory<'a> {
    /// Makes the calls and hands every claim to the presenter.
    pub(super) fn burst(&mut self, burst: &'a Burst) -> Result<()> {
        self.stage.catch_up()?;
        for group in &burst.groups {
            let is_whole = group.denied.is_some() == group.hit.is_some();
            ensure!(
                is_whole,
                "calls to {} have `denied` and `hit`, or none of them",
                group.means
            );
        }
        let before = Before {
            counters: self.stage.counters()?,
            drops: self.stage.agent.drops().unwrap_or_default(),
            received: self.requests_received(burst),
        };
        let mut played = self.play(burst)?;
        let denied = burst.denied();
        if let Some(group) = denied {
            let wanted = played.calls(group);
            played.reports = counted_since(&before.drops, &self.stage.agent, wanted);
        }
        let counted = self.stage.counters()?.since(&before.counters);
        self.presenter.counted(&played);
        self.claim_answers(&played)?;
        if let Some(group) = denied {
            if group.by.is_some() {
                self.claim_requests(&played, &before.received)?;
                self.claim_packets(&played, group, &counted)?;
            } else {
                self.claim_nothing_stopped(&counted)?;
            }
            self.claim_reports(&played, group)?;
            if let Some(than) = burst.quicker_than {
                self.claim_quicker(&played, group, than)?;
            }
        }
        self.played.push(played);
        Ok(())
    }

    /// Requests that the server of each group has received.
    fn requests_received(&self, burst: &Burst) -> Vec<u64> {
        let groups = burst.groups.iter();
        groups.map(|group| self.requests_of(group)).collect()
    }

    fn requests_of(&self, group: &Group) -> u64 {
        let server = self.stage.cluster.servers.get(&group.means);
        server.map_or(0, Server::requests)
    }

    /// Makes all calls of the burst.
    fn play(&mut self, burst: &'a Burst) -> Result<Played<'a>> {
        let mut calls = Vec::new();
        for (_, caller) in burst.callers() {
            let mut of_caller = Vec::new();
            for _ in 0..burst.rounds {
                let cluster = &self.stage.cluster;
                let call = self
                    .clients
                    .aim(&caller.from, &caller.call, TIMEOUT, cluster)?;
                of_caller.push(call);
            }
            calls.push(of_caller);
        }
        let mut played = Played {
            burst,
            answers: vec![vec![None; usize::try_from(burst.rounds)?]; calls.len()],
            reports: Vec::new(),
        };
        make(&calls, &mut played, self.presenter);
        Ok(played)
    }

    /// Each group's clients saw what the story says.
    fn claim_answers(&mut self, played: &Played<'_>) -> Result<()> {
        for group in &played.burst.groups {
            let calls = played.calls(group);
            let as_told = played.of(group).filter(|answer| word(answer) == group.sees);
            let saw = as_told.count() as u64;
            let text = format!("all {calls} {}", group.claim);
            self.presenter
                .claim(saw == calls, text, format!("{saw} were"))?;
        }
        Ok(())
    }

    /// The servers of groups that are not denied received their own requests alone.
    fn claim_requests(&mut self, played: &Played<'_>, before: &[u64]) -> Result<()> {
        for (group, before) in played.burst.groups.iter().zip(before) {
            if group.denied.is_some() {
                continue;
            }
            let made = played.calls(group);
            let received = self.requests_of(group) - before;
            let text = format!(
                "{}'s process received those {made} requests and not one more",
                group.means
            );
            self.presenter
                .claim(made == received, text, format!("it received {received}"))?;
        }
        Ok(())
    }

    /// The kernel counted a packet for each denied call.
    fn claim_packets(
        &mut self,
        played: &Played<'_>,
        group: &Group,
        counted: &Counters,
    ) -> Result<()> {
        let calls = played.calls(group);
        let outcome = outcome(group);
        let packets = match group.denied.as_deref().and_then(Reason::parse) {
            Some(reason) => counted.of(reason, outcome),
            None => 0,
        };
        let kind = outcome.as_str();
        let means = &group.means;
        let text =
            format!("epguard counted {calls} {kind} packets, a SYN for each call to {means}");
        self.presenter
            .claim(packets == calls, text, format!("it counted {counted}"))
    }

    fn claim_nothing_stopped(&mut self, counted: &Counters) -> Result<()> {
        let stopped: u64 = Outcome::stopped()
            .map(|outcome| counted.with_outcome(outcome))
            .sum();
        let text = "epguard stopped nothing".into();
        self.presenter
            .claim(stopped == 0, text, format!("it counted {counted}"))
    }

    /// The agent counted a connection for each denied call, with the names of both pods.
    fn claim_reports(&mut self, played: &Played<'_>, group: &Group) -> Result<()> {
        let calls = played.calls(group);
        let reported = reported(played, group, &self.stage.cluster.names)?;
        let means = &group.means;
        let text = format!(
            "epguard counted all {calls} connections to {means}, with both pods' names, and no other"
        );
        self.presenter.claim(
            reported.right == calls && reported.all == calls,
            text,
            format!("{} of {} are right", reported.right, reported.all),
        )
    }

    /// Clients knew of the denial in a tenth of the time that an earlier burst's clients needed.
    fn claim_quicker(&mut self, played: &Played<'_>, group: &Group, than: Action) -> Result<()> {
        let mut slow = None;
        for earlier in &self.played {
            if let Some(denied) = earlier.burst.denied()
                && denied.by == Some(than)
            {
                slow = Some(earlier.median(denied));
                break;
            }
        }
        let slow = slow.context("no earlier burst is denied in this way")?;
        let quick = played.median(group);
        let text = format!(
            "half of them within {}, where {than} let them wait {}",
            milliseconds(quick),
            milliseconds(slow)
        );
        self.presenter
            .claim(quick * 10 <= slow, text, "not even a tenth".into())
    }
}

/// What was counted before a burst.
struct Before {
    counters: Counters,
    drops: Vec<Dropped>,
    /// Requests by group.
    received: Vec<u64>,
}

fn outcome(group: &Group) -> Outcome {
    group.by.map_or(Outcome::Observed, Action::outcome)
}

/// Lets the callers call in turns, and shows after each answer what there is.
fn make(
    calls: &[Vec<(Client, ClientCall)>],
    played: &mut Played<'_>,
    presenter: &mut dyn Presenter,
) {
    presenter.answers(played);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for turn in 0..calls.first().map_or(0, Vec::len) {
                for (row, calls) in calls.iter().enumerate() {
                    let tell = tell.clone();
                    let (client, call) = &calls[turn];
                    scope.spawn(move || tell.send((row, turn, client.call(*call))));
                    thread::sleep(PACE);
                }
            }
        });
        for (row, turn, answer) in told {
            played.answers[row][turn] = Some(answer);
            presenter.answers(played);
        }
    });
}

/// Waits until the agent has counted this many connections since `before`. Returns the rows with
/// new ones.
fn counted_since(before: &[Dropped], agent: &Agent, wanted: u64) -> Vec<Dropped> {
    let mut rows = Vec::new();
    // What is missing after a minute, the caller reports.
    let _ = wait::until(Duration::from_millis(10), || {
        rows = agent.drops().unwrap_or_default();
        for row in &mut rows {
            let earlier = before.iter().find(|earlier| earlier.kind == row.kind);
            row.openings = row
                .openings
                .saturating_sub(earlier.map_or(0, |earlier| earlier.openings));
        }
        rows.retain(|row| row.openings > 0);
        let opened: u64 = rows.iter().map(|row| row.openings).sum();
        Ok((opened < wanted).then(String::new))
    });
    rows
}

/// Connections that the agent counted.
struct Reported {
    /// With the expected outcome, reason, Service and names.
    right: u64,
    all: u64,
}

fn reported(played: &Played<'_>, group: &Group, names: &Names) -> Result<Reported> {
    let meant = names.expand_text(&format!("${{{}}}", group.means))?;
    let hit = group.hit.as_deref().unwrap_or_default();
    let hit = names.expand_text(&format!("${{{hit}}}"))?;
    let mut reported = Reported { right: 0, all: 0 };
    for Dropped { kind, openings, .. } in &played.reports {
        let is_right = kind.outcome == outcome(group).as_str()
            && Some(&*kind.reason) == group.denied.as_deref()
            && group
                .callers
                .iter()
                .any(|caller| caller.call == kind.service)
            && kind.meant == meant
            && kind.hit == hit;
        if is_right {
            reported.right += openings;
        }
        reported.all += openings;
    }
    Ok(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_two_significant_digits() {
        let text = |micros| milliseconds(Duration::from_micros(micros));
        assert_eq!(
            [text(349), text(9_949), text(9_951), text(800_700)],
            ["0.3 ms", "9.9 ms", "10 ms", "801 ms"]
        );
    }
}

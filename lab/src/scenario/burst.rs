//! Plays a burst, and checks what its clients saw and what epguard counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use epguard::shared::drops::Dropped;
use epguard_common::{Outcome, Reason};

use super::agent::Agent;
use super::format::{Action, Burst, Group};
use super::stage::Stage;
use super::tell::{Presenter, Run};
use super::traffic::word;
use crate::figures::percentile;
use crate::traffic::{Answer, Call, Client, Server};
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

impl<'a> Run<'a> {
    /// Makes the calls and hands every claim to the presenter.
    pub(super) fn burst(&mut self, burst: &'a Burst) -> Result<()> {
        self.stage.catch_up()?;
        let Self {
            clients,
            played: earlier,
            presenter,
            stage,
            ..
        } = self;
        for group in &burst.groups {
            let is_whole = group.denied.is_some() == group.hit.is_some();
            ensure!(
                is_whole,
                "calls to {} have `denied` and `hit`, or none of them",
                group.means
            );
        }
        let server = |group: &Group| stage.cluster.servers.get(&group.means);
        let requests = |group: &Group| server(group).map_or(0, Server::requests);
        let (before, drops_before) = (stage.counters()?, stage.agent.drops().unwrap_or_default());
        let received: Vec<u64> = burst.groups.iter().map(requests).collect();
        let calls = burst.callers().map(|(_, caller)| {
            let call = |_| clients.aim(&caller.from, &caller.call, TIMEOUT, &stage.cluster);
            (0..burst.rounds).map(call).collect()
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let answers = vec![vec![None; usize::try_from(burst.rounds)?]; calls.len()];
        let mut played = Played {
            burst,
            answers,
            reports: Vec::new(),
        };
        make(&calls, &mut played, *presenter);
        let denied = burst.denied().map(|group| (group, played.calls(group)));
        if let Some((_, wanted)) = denied {
            played.reports = counted_since(&drops_before, &stage.agent, wanted);
        }
        let now = stage.counters()?.since(&before);
        presenter.counted(&played);
        for group in &burst.groups {
            let saw = played
                .of(group)
                .filter(|answer| word(answer) == group.sees)
                .count() as u64;
            let text = format!("all {} {}", played.calls(group), group.claim);
            presenter.claim(saw == played.calls(group), text, format!("{saw} were"))?;
        }
        let Some((group, calls)) = denied else {
            earlier.push(played);
            return Ok(());
        };
        if group.by.is_some() {
            let others = burst.groups.iter().zip(&received);
            for (other, before) in others.filter(|(other, _)| other.denied.is_none()) {
                let (own, got) = (played.calls(other), requests(other) - before);
                let text = format!(
                    "{}'s process received those {own} requests and not one more",
                    other.means
                );
                presenter.claim(own == got, text, format!("it received {got}"))?;
            }
            let outcome = outcome(group);
            let reason = group.denied.as_deref().and_then(Reason::parse);
            let counted = reason.map_or(0, |reason| now.of(reason, outcome));
            let (kind, means) = (outcome.as_str(), &group.means);
            let text =
                format!("epguard counted {calls} {kind} packets, a SYN for each call to {means}");
            presenter.claim(counted == calls, text, format!("it counted {now}"))?;
        } else {
            let stopped: u64 = Outcome::stopped()
                .map(|outcome| now.with_outcome(outcome))
                .sum();
            let text = "epguard stopped nothing".into();
            presenter.claim(stopped == 0, text, format!("it counted {now}"))?;
        }
        let (named, all) = named(&played, group, stage)?;
        let means = &group.means;
        let text = format!(
            "epguard counted all {calls} connections to {means}, with both pods' names, and no other"
        );
        presenter.claim(
            named == calls && all == calls,
            text,
            format!("{named} of {all} are right"),
        )?;
        if let Some(than) = burst.quicker_than {
            let mut denied = earlier
                .iter()
                .filter_map(|played| Some((played, played.burst.denied()?)));
            let before = denied.find(|(_, group)| group.by == Some(than));
            let (before, of) = before.context("no earlier burst is denied in this way")?;
            let (now, before) = (played.median(group), before.median(of));
            let [short, long] = [now, before].map(milliseconds);
            let text = format!("half of them within {short}, where {than} let them wait {long}");
            presenter.claim(now * 10 <= before, text, "not even a tenth".into())?;
        }
        earlier.push(played);
        Ok(())
    }
}

fn outcome(group: &Group) -> Outcome {
    group.by.map_or(Outcome::Observed, Action::outcome)
}

/// Lets the callers call in turns, and shows after each answer what there is.
fn make(calls: &[Vec<(Client, Call)>], played: &mut Played<'_>, presenter: &mut dyn Presenter) {
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

/// Connections that the agent counted as it should, and all that it counted.
fn named(played: &Played<'_>, group: &Group, stage: &Stage) -> Result<(u64, u64)> {
    let names = &stage.cluster.names;
    let full = |pod: &str| names.expand_text(&format!("${{{pod}}}"));
    let (meant, hit) = (
        full(&group.means)?,
        full(group.hit.as_deref().unwrap_or_default())?,
    );
    let right = |Dropped { kind, .. }: &&Dropped| {
        kind.outcome == outcome(group).as_str()
            && Some(&*kind.reason) == group.denied.as_deref()
            && group
                .callers
                .iter()
                .any(|caller| caller.call == kind.service)
            && (&kind.meant, &kind.hit) == (&meant, &hit)
    };
    let opened = |row: &Dropped| row.openings;
    Ok((
        played.reports.iter().filter(right).map(opened).sum(),
        played.reports.iter().map(opened).sum(),
    ))
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

//! What came of a burst: what its clients saw, and what `epguard drops` has counted since the last look; who is shown it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use epguard::shared::drops::{Dropped, Kind};

use super::agent::Agent;
use super::format::{Burst, Group, Step};
use super::stage::Stage;
use crate::traffic::Answer;
use crate::wait;

/// A burst and what came of it.
#[derive(Clone, Debug)]
pub struct Played<'a> {
    /// As the story has it.
    pub burst: &'a Burst,
    /// A row for each caller, a place for each of its calls.
    pub answers: Vec<Vec<Option<Answer>>>,
    /// Connections of this burst that the agent has counted as denied.
    pub reports: Vec<Report>,
}

impl Played<'_> {
    /// The median latency of the calls of a group.
    pub fn median(&self, group: &Group) -> Duration {
        median(self.of(group)).unwrap_or_default()
    }

    /// The answers to the calls of a group.
    pub fn of(&self, group: &Group) -> impl Iterator<Item = &Answer> {
        let rows = self.burst.callers().zip(&self.answers);
        rows.filter(move |((of, _), _)| std::ptr::eq(*of, group)).flat_map(|(_, row)| row.iter().flatten())
    }

    pub(super) fn calls(&self, group: &Group) -> u64 {
        u64::from(self.burst.rounds) * group.callers.len() as u64
    }
}

/// The median latency, if there is an answer.
pub fn median<'a>(answers: impl Iterator<Item = &'a Answer>) -> Option<Duration> {
    let mut latencies: Vec<Duration> = answers.map(|answer| answer.latency).collect();
    latencies.sort_unstable();
    let upper = latencies.get(latencies.len() / 2)?;
    let lower = latencies.get((latencies.len() - 1) / 2)?;
    Some((*lower + *upper) / 2)
}

/// A latency for people, who need no more than two digits of it.
pub fn milliseconds(latency: Duration) -> String {
    let number = latency.as_secs_f64() * 1000.0;
    let digits = usize::from(number < 9.95);
    format!("{number:.digits$} ms")
}

/// Denied packets that have the same pods, Service and outcome.
#[derive(Clone, Debug)]
pub struct Report {
    /// The fields that they have in common.
    pub kind: Kind,
    /// Connections opened since the last reading.
    pub opened: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, opened } = self;
        writeln!(f, "{} {} service={} opened={opened}", kind.outcome, kind.reason, kind.service)?;
        write!(f, "meant={} hit={} endpoint={}", kind.meant, kind.hit, kind.endpoint)
    }
}

/// Connections that the agent has counted until now.
#[derive(Debug, Default)]
pub struct Counted(BTreeMap<Kind, u64>);

impl Counted {
    /// Waits until the agent has counted this many more connections, and returns all new ones.
    pub fn next(&mut self, agent: &Agent, wanted: u64) -> Vec<Report> {
        let (mut rows, mut reports) = (Vec::new(), Vec::new());
        // What is missing after a minute, the caller reports.
        let _ = wait::until(Duration::from_millis(10), || {
            rows = agent.drops().unwrap_or_default();
            reports = self.since(&rows);
            let opened: u64 = reports.iter().map(|report| report.opened).sum();
            Ok(wait::holds(opened >= wanted, String::new))
        });
        self.0 = rows.into_iter().map(|row| (row.kind, row.openings)).collect();
        reports
    }

    fn since(&self, rows: &[Dropped]) -> Vec<Report> {
        let news = rows.iter().map(|row| {
            let before = self.0.get(&row.kind).copied().unwrap_or_default();
            Report { kind: row.kind.clone(), opened: row.openings.saturating_sub(before) }
        });
        news.filter(|report| report.opened > 0).collect()
    }
}

/// Follows a story. By default it shows nothing, and a claim that does not hold ends the story.
pub trait Presenter {
    /// A step begins, after these bursts.
    fn step(&mut self, _stage: &Stage, _played: &[Played<'_>], _step: &Step) -> Result<()> {
        Ok(())
    }

    /// Answers to calls of a burst are there; not yet all.
    fn answers(&mut self, _so_far: &Played<'_>) {}

    /// A burst is over, and the agent has counted its connections.
    fn counted(&mut self, _played: &Played<'_>) {}

    /// Whether what a text says holds, and what was seen, in words, for when it does not.
    fn claim(&mut self, holds: bool, text: String, seen: String) -> Result<()> {
        ensure!(holds, "expected that {text}, but {seen}");
        Ok(())
    }
}

/// Shows nothing.
#[derive(Debug)]
pub struct Silent;

impl Presenter for Silent {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Outcome;

    fn median_of(latencies: &[u64]) -> Option<Duration> {
        let answers: Vec<Answer> = latencies
            .iter()
            .map(|latency| Answer {
                outcome: Outcome::TimedOut,
                latency: Duration::from_micros(*latency),
                local: None,
            })
            .collect();
        median(answers.iter())
    }

    #[test]
    fn half_of_the_calls_took_no_longer_than_the_median() {
        assert_eq!(median_of(&[900, 100, 300]), Some(Duration::from_micros(300)));
        assert_eq!(median_of(&[900, 100, 300, 500]), Some(Duration::from_micros(400)));
        assert_eq!(median_of(&[]), None);
    }

    #[test]
    fn a_latency_has_two_significant_digits() {
        let text = |micros| milliseconds(Duration::from_micros(micros));
        assert_eq!(
            [text(349), text(9_949), text(9_951), text(800_700)],
            ["0.3 ms", "9.9 ms", "10 ms", "801 ms"]
        );
    }
}

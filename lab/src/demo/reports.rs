//! What the agent says about denied packets: `epguard drops`.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use epguard::shared::drops::{Dropped, Kind};

use crate::scenario::agent::Agent;

/// How long the last packet may take from the kernel to the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Denied packets that have the same pods, Service and outcome.
#[derive(Clone, Debug)]
pub struct Report {
    /// What they have in common.
    pub kind: Kind,
    /// Connections opened since the last look.
    pub opened: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, opened } = self;
        writeln!(
            f,
            "{} {} service={} opened={opened}",
            kind.outcome, kind.reason, kind.service
        )?;
        write!(
            f,
            "meant={} hit={} endpoint={}",
            kind.meant, kind.hit, kind.endpoint
        )
    }
}

/// Connections that the agent has counted until now.
#[derive(Debug, Default)]
pub struct Counted(BTreeMap<Kind, u64>);

impl Counted {
    /// Waits until the agent has counted this many more connections, and returns all that it has.
    pub fn next(&mut self, agent: &Agent, wanted: u64) -> Vec<Report> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = agent.drops().unwrap_or_default();
            let reports = self.since(&rows);
            let opened: u64 = reports.iter().map(|report| report.opened).sum();
            if opened >= wanted || Instant::now() > deadline {
                self.0 = rows.into_iter().map(|row| (row.kind, row.openings)).collect();
                return reports;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn since(&self, rows: &[Dropped]) -> Vec<Report> {
        let news = rows.iter().map(|row| {
            let before = self.0.get(&row.kind).copied().unwrap_or_default();
            Report {
                kind: row.kind.clone(),
                opened: row.openings.saturating_sub(before),
            }
        });
        news.filter(|report| report.opened > 0).collect()
    }
}

//! What `epguard drops` has counted since the last look.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use epguard::shared::drops::{Dropped, Kind};

use super::agent::Agent;
use crate::wait;

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

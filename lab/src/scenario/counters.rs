//! COUNTERS, summed over all processors.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use aya::maps::{Map, PerCpuHashMap};
use epguard_common::{Count, Counter, Outcome, Reason};

/// What no packet may end in but under `enforce`.
pub const STOPPED: [Outcome; 4] = [
    Outcome::Dropped,
    Outcome::Rejected,
    Outcome::Redirected,
    Outcome::Captured,
];

/// Packets by reason and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<Counter, u64>);

impl Counters {
    /// What the pinned map says now.
    pub fn read(pin_dir: &Path) -> Result<Self> {
        let map = Map::PerCpuHashMap(epguard::maps::open(pin_dir, "COUNTERS")?);
        let map: PerCpuHashMap<_, Counter, Count> = map.try_into()?;
        let mut counted = BTreeMap::new();
        for reason in Reason::ALL {
            for outcome in Outcome::ALL {
                let key = Counter { reason, outcome };
                let counts = map.get(&key, 0).context("cannot read COUNTERS")?;
                counted.insert(key, counts.iter().map(|count| count.packets).sum());
            }
        }
        Ok(Self(counted))
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |key| earlier.0.get(key).copied().unwrap_or_default();
        Self(
            self.0
                .iter()
                .map(|(key, count)| (*key, count.saturating_sub(before(key))))
                .collect(),
        )
    }

    /// Packets with this reason and outcome.
    #[must_use]
    pub fn of(&self, reason: Reason, outcome: Outcome) -> u64 {
        self.0
            .get(&Counter { reason, outcome })
            .copied()
            .unwrap_or_default()
    }

    /// Packets with this outcome, whatever the reason.
    #[must_use]
    pub fn with_outcome(&self, outcome: Outcome) -> u64 {
        Reason::ALL
            .into_iter()
            .map(|reason| self.of(reason, outcome))
            .sum()
    }

    /// Packets that were, or would have been, denied for this reason.
    #[must_use]
    pub fn denials(&self, reason: Reason) -> u64 {
        let denials = STOPPED.into_iter().chain([Outcome::Observed]);
        denials.map(|outcome| self.of(reason, outcome)).sum()
    }
}

/// All that is not zero.
impl std::fmt::Display for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        let texts: Vec<String> = counted
            .map(|(key, count)| format!("{}/{} {count}", key.reason.as_str(), key.outcome.as_str()))
            .collect();
        f.write_str(if texts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&texts.join(", "))
    }
}

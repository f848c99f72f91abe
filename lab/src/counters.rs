//! What the datapath has counted: COUNTERS, summed over all processors.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Result;
use epguard::kernel::maps;
use epguard_common::{Outcome, Reason};

/// Packets by reason and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<(Reason, Outcome), u64>);

impl Counters {
    /// Reads the pinned map.
    pub fn read(pin_dir: &Path) -> Result<Self> {
        let counted = maps::counters(pin_dir)?.into_iter();
        Ok(Self(
            counted.map(|(key, count)| (key, count.packets)).collect(),
        ))
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.0.clone();
        for (key, count) in &mut since {
            let before = earlier.0.get(key).copied().unwrap_or_default();
            *count = count.saturating_sub(before);
        }
        Self(since)
    }

    /// Packets with this reason and outcome.
    pub fn of(&self, reason: Reason, outcome: Outcome) -> u64 {
        self.0.get(&(reason, outcome)).copied().unwrap_or_default()
    }

    /// Packets with this outcome, for all reasons.
    pub fn with_outcome(&self, outcome: Outcome) -> u64 {
        Reason::ALL
            .into_iter()
            .map(|reason| self.of(reason, outcome))
            .sum()
    }

    /// Packets that were, or would have been, denied for this reason.
    pub fn denials(&self, reason: Reason) -> u64 {
        let denials = Outcome::of_denials();
        denials.map(|outcome| self.of(reason, outcome)).sum()
    }
}

/// All counters above zero.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.0.iter().filter(|(_, count)| **count > 0);
        let texts: Vec<String> = counted
            .map(|((reason, outcome), count)| {
                format!("{}/{} {count}", reason.as_str(), outcome.as_str())
            })
            .collect();
        f.write_str(if texts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&texts.join(", "))
    }
}

//! The kernel's counters, summed over the processors.

use anyhow::{Context as _, Result};
use aya::maps::{Map, PerCpuArray};
use epguard_common::{Count, Outcome, Reason, counter};
use std::collections::BTreeMap;
use std::path::Path;

/// Packets and bytes by reason and outcome.
pub type Counters = BTreeMap<(Reason, Outcome), Count>;

/// Packets with this reason and outcome; 0 if COUNTERS cannot be read.
#[must_use]
pub fn packets(pin_dir: &Path, reason: Reason, outcome: Outcome) -> u64 {
    let read = || -> Result<u64> {
        let map = Map::PerCpuArray(super::open(pin_dir, "COUNTERS")?);
        let map: PerCpuArray<_, Count> = map.try_into()?;
        let per_cpu = map.get(&counter(reason, outcome), 0)?;
        Ok(per_cpu.iter().map(|count| count.packets).sum())
    };
    read().unwrap_or_default()
}

/// Reads the pinned COUNTERS. They outlive the agent, and start again when the datapath is detached or the node boots.
pub fn counters(pin_dir: &Path) -> Result<Counters> {
    let map = Map::PerCpuArray(super::open(pin_dir, "COUNTERS")?);
    let map: PerCpuArray<_, Count> = map.try_into().context("COUNTERS has another layout")?;
    let pairs = Reason::ALL
        .into_iter()
        .flat_map(|reason| Outcome::ALL.map(|outcome| (reason, outcome)));
    pairs
        .map(|(reason, outcome)| {
            let per_cpu = map
                .get(&counter(reason, outcome), 0)
                .context("cannot read COUNTERS")?;
            let sum = per_cpu.iter().copied().fold(Count::default(), Count::plus);
            Ok(((reason, outcome), sum))
        })
        .collect()
}

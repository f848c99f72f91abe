//! The kernel's counters, summed over the processors.

use anyhow::{Context as _, Result};
use aya::maps::{Map, MapData, PerCpuArray};
use epguard_common::{Count, Outcome, Reason, counter};
use std::collections::BTreeMap;
use std::path::Path;

/// Packets and bytes by reason and outcome.
pub type Counters = BTreeMap<(Reason, Outcome), Count>;

/// Packets with this reason and outcome; 0 if COUNTERS cannot be read.
#[must_use]
pub fn packets(pin_dir: &Path, reason: Reason, outcome: Outcome) -> u64 {
    let count = pinned(pin_dir).and_then(|map| sum(&map, reason, outcome));
    count.map_or(0, |count| count.packets)
}

/// Reads the pinned COUNTERS. They outlive the agent, and start again when the datapath is detached or the node boots.
pub fn counters(pin_dir: &Path) -> Result<Counters> {
    let map = pinned(pin_dir)?;
    let pairs = Reason::ALL.into_iter().flat_map(|reason| Outcome::ALL.map(|outcome| (reason, outcome)));
    pairs.map(|(reason, outcome)| Ok(((reason, outcome), sum(&map, reason, outcome)?))).collect()
}

fn pinned(pin_dir: &Path) -> Result<PerCpuArray<MapData, Count>> {
    let map = Map::PerCpuArray(super::open(pin_dir, "COUNTERS")?);
    map.try_into().context("COUNTERS has another layout")
}

fn sum(map: &PerCpuArray<MapData, Count>, reason: Reason, outcome: Outcome) -> Result<Count> {
    let per_cpu = map.get(&counter(reason, outcome), 0);
    let per_cpu = per_cpu.context("cannot read COUNTERS")?;
    Ok(per_cpu.iter().copied().fold(Count::default(), Count::plus))
}

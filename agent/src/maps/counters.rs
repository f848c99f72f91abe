//! The kernel's counters, summed over the processors.

use anyhow::{Context as _, Result};
use aya::maps::{Map, PerCpuHashMap};
use epguard_common::{Count, Counter, Outcome, Reason};
use std::collections::BTreeMap;
use std::path::Path;

/// Packets and bytes by reason and outcome.
pub type Counters = BTreeMap<(Reason, Outcome), Count>;

/// Reads the pinned COUNTERS. They outlive the agent, and start again when the datapath is detached or the node boots.
pub fn counters(pin_dir: &Path) -> Result<Counters> {
    let map = Map::PerCpuHashMap(super::open(pin_dir, "COUNTERS")?);
    let map: PerCpuHashMap<_, Counter, Count> = map.try_into().context("COUNTERS has another layout")?;
    let pairs = Reason::ALL
        .into_iter()
        .flat_map(|reason| Outcome::ALL.map(|outcome| (reason, outcome)));
    pairs
        .map(|(reason, outcome)| {
            let per_cpu = map
                .get(&Counter { reason, outcome }, 0)
                .context("cannot read COUNTERS")?;
            let mut sum = Count::default();
            for count in per_cpu.iter() {
                sum.packets = sum.packets.wrapping_add(count.packets);
                sum.bytes = sum.bytes.wrapping_add(count.bytes);
            }
            Ok(((reason, outcome), sum))
        })
        .collect()
}

//! The kernel's counters, summed over the processors.

use super::{BPF_NOEXIST, take};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Map, MapError, PerCpuHashMap, PerCpuValues};
use epguard_common::{Count, Counter, Outcome, Reason};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// Packets and bytes by reason and outcome.
pub type Counters = BTreeMap<(Reason, Outcome), Count>;

/// The programs count only where a key is; what an earlier process counted goes on.
pub(super) fn prepare(ebpf: &mut Ebpf) -> Result<()> {
    let mut counters: PerCpuHashMap<_, Counter, Count> = take(ebpf, "COUNTERS")?.try_into()?;
    let cpus =
        aya::util::nr_cpus().map_err(|(file, error)| anyhow::anyhow!("cannot read {file}: {error}"))?;
    for (reason, outcome) in Reason::ALL.into_iter().flat_map(|r| Outcome::ALL.map(|o| (r, o))) {
        let zero = PerCpuValues::try_from(vec![Count::default(); cpus])?;
        match counters.insert(Counter { reason, outcome }, zero, BPF_NOEXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::AlreadyExists => {}
            written => written.context("cannot write COUNTERS")?,
        }
    }
    Ok(())
}

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

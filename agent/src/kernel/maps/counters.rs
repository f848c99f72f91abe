//! What the kernel counts, summed over the processors: COUNTERS by reason and outcome, and
//! `DENIAL_COUNTS` by denial. An entry of the latter is made before its denial and taken out after
//! it, so that no packet is missed.

use super::pinned::{open, take_map};
use super::refusal::{BPF_NOEXIST, accept_absent, is_full};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues};
use epguard_common::{
    Count, Denial, DenialCount, DenialKey, Effect, Outcome, Reason, Uid, counter,
};
use epguard_core::plan::Op;
use epguard_core::state::Tables;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::Path;

/// Packets and bytes by reason and outcome.
pub type Counters = BTreeMap<(Reason, Outcome), Count>;

/// Packets with this reason and outcome; 0 if COUNTERS cannot be read.
pub fn packets(pin_dir: &Path, reason: Reason, outcome: Outcome) -> u64 {
    let count = open(pin_dir, "COUNTERS").and_then(|map| sum(&map, reason, outcome));
    count.map_or(0, |count| count.packets)
}

/// Reads the pinned COUNTERS. They outlive the agent, and start again when the datapath is detached
/// or the node boots.
pub fn counters(pin_dir: &Path) -> Result<Counters> {
    let map = open(pin_dir, "COUNTERS")?;
    let pairs = Reason::ALL
        .into_iter()
        .flat_map(|reason| Outcome::ALL.map(|outcome| (reason, outcome)));
    pairs
        .map(|(reason, outcome)| Ok(((reason, outcome), sum(&map, reason, outcome)?)))
        .collect()
}

/// The programs' COUNTERS, as the agent reads them.
pub(super) struct PacketCounts(PerCpuArray<MapData, Count>);

impl PacketCounts {
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self> {
        take_map(ebpf, "COUNTERS").map(Self)
    }

    /// Packets to suspects that passed, by the cause. An outcome that cannot be read is left out.
    pub fn passed(&self) -> BTreeMap<Outcome, u64> {
        let mut passed = BTreeMap::new();
        for outcome in Outcome::ALL {
            if outcome.effect() != Effect::Passed {
                continue;
            }
            let counts = Reason::ALL.map(|reason| sum(&self.0, reason, outcome));
            let packets: u64 = counts.iter().flatten().map(|count| count.packets).sum();
            passed.insert(outcome, packets);
        }
        passed
    }
}

fn sum(map: &PerCpuArray<MapData, Count>, reason: Reason, outcome: Outcome) -> Result<Count> {
    let per_cpu = map.get(&counter(reason, outcome), 0);
    let per_cpu = per_cpu.context("cannot read COUNTERS")?;
    Ok(per_cpu.iter().copied().fold(Count::default(), Count::plus))
}

/// The properties that the packets of a denial share. The key of a denial stays while its proof may
/// change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied {
    /// The key; for `terminated` only the address is set.
    pub target: DenialKey,
    /// The proof.
    pub reason: Reason,
    /// The pod that is meant.
    pub dead: Uid,
    /// The pod that would be hit; [`Uid::NONE`] if none claims the IP.
    pub owner: Uid,
}

impl Denied {
    /// The installed denial of a key.
    fn installed(tables: &Tables, target: &DenialKey) -> Option<Self> {
        if let Some(denial) = tables.denied.get(target) {
            return Some(Self::new(target, denial));
        }
        if *target != DenialKey::of_ip(target.addr) {
            return None;
        }
        let orphan_ip = tables.terminated.get(&target.addr)?;
        Some(Self {
            target: *target,
            reason: Reason::Terminated,
            dead: orphan_ip.dead,
            owner: Uid::NONE,
        })
    }

    fn new(target: &DenialKey, denial: &Denial) -> Self {
        Self {
            target: *target,
            reason: denial.reason,
            dead: denial.dead_uid,
            owner: denial.owner_uid,
        }
    }
}

/// The packets of a denial since its counts were read before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The denial.
    pub denied: Denied,
    /// When the last one came, nanoseconds of `CLOCK_BOOTTIME`.
    pub last_ns: u64,
    /// How many, by outcome; outcomes without any are left out.
    pub added: Vec<(Outcome, Count)>,
}

pub(super) struct DenialCounts {
    map: PerCpuHashMap<MapData, DenialKey, DenialCount>,
    cpus: usize,
    /// The counts that were read last, the sums over all processors.
    read: HashMap<DenialKey, DenialCount>,
    /// Readings of denials that have ended or have another proof since the last call of
    /// [`DenialCounts::take_readings`].
    readings: Vec<Reading>,
    uncounted: u64,
}

impl DenialCounts {
    pub fn take_from(ebpf: &mut Ebpf) -> Result<Self> {
        let cpus = aya::util::nr_cpus()
            .map_err(|(file, error)| anyhow::anyhow!("cannot read {file}: {error}"))?;
        let map = take_map(ebpf, "DENIAL_COUNTS")?;
        Ok(Self {
            map,
            cpus,
            read: HashMap::new(),
            readings: Vec::new(),
            uncounted: 0,
        })
    }

    /// Adds an entry, before the denial itself is written. If the map is full, the denial takes
    /// effect without one, and its packets are counted in COUNTERS only.
    pub fn begin(&mut self, target: &DenialKey) -> Result<(), MapError> {
        let zero = PerCpuValues::try_from(vec![DenialCount::default(); self.cpus])
            .map_err(MapError::IoError)?;
        match self.map.insert(target, zero, BPF_NOEXIST) {
            Err(MapError::SyscallError(error))
                if error.io_error.kind() == ErrorKind::AlreadyExists =>
            {
                Ok(())
            }
            Err(error) if is_full(&error) => {
                self.uncounted += 1;
                Ok(())
            }
            inserted => inserted,
        }
    }

    /// Reads and removes the entry of a denial that has just been removed. One that was not
    /// `installed` is not read.
    pub fn end(&mut self, installed: &Tables, target: &DenialKey) -> Result<(), MapError> {
        Denied::installed(installed, target)
            .map_or(Ok(()), |denied| self.read_count(denied, true))?;
        accept_absent(self.map.remove(target))
    }

    /// Reads the counts of denials whose proof changes: the packets until now belong to the proof
    /// until now.
    pub fn settle(&mut self, installed: &Tables, ops: &[Op]) -> Result<()> {
        for op in ops {
            let Op::Denial(target, Some(next)) = op else {
                continue;
            };
            let before = Denied::installed(installed, target);
            if let Some(before) = before.filter(|before| Denied::new(target, next) != *before) {
                self.read_count(before, false)
                    .context("cannot read DENIAL_COUNTS")?;
            }
        }
        Ok(())
    }

    /// Returns what the kernel has counted since the last call: of denials that ended or got
    /// another proof, in the order of the changes; then of all `installed` denials that are
    /// `wanted`.
    pub fn take_readings(
        &mut self,
        installed: &Tables,
        wanted: impl Fn(&DenialKey) -> bool,
    ) -> Result<Vec<Reading>> {
        let denied = installed.denied.keys().copied();
        let orphan_ips = installed.terminated.keys().map(|ip| DenialKey::of_ip(*ip));
        for target in denied.chain(orphan_ips).filter(wanted) {
            if let Some(denied) = Denied::installed(installed, &target) {
                self.read_count(denied, false)
                    .context("cannot read DENIAL_COUNTS")?;
            }
        }
        Ok(std::mem::take(&mut self.readings))
    }

    /// How many denials found no room.
    pub const fn uncounted(&self) -> u64 {
        self.uncounted
    }

    fn read_count(&mut self, denied: Denied, ended: bool) -> Result<(), MapError> {
        let per_cpu = match self.map.get(&denied.target, 0) {
            Err(MapError::KeyNotFound) => return Ok(()),
            per_cpu => per_cpu?,
        };
        let count = per_cpu
            .iter()
            .fold(DenialCount::default(), DenialCount::plus);
        let added = added(&mut self.read, denied.target, count, ended);
        self.readings.push(Reading {
            denied,
            last_ns: count.last_ns,
            added,
        });
        Ok(())
    }
}

/// The packets since the counts of this key were `read` last. If its entry has `ended`, another one
/// begins at 0.
fn added(
    read: &mut HashMap<DenialKey, DenialCount>,
    key: DenialKey,
    count: DenialCount,
    ended: bool,
) -> Vec<(Outcome, Count)> {
    let before = if ended {
        read.remove(&key)
    } else {
        read.insert(key, count)
    };
    let before = before.unwrap_or_default().each();
    let added = count
        .each()
        .zip(before)
        .map(|((outcome, now), (_, before))| (outcome, now.since(before)));
    added.filter(|(_, count)| count.packets > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Addr;

    #[test]
    fn each_packet_is_counted_once_and_a_new_entry_begins_at_zero() {
        let (mut read, key) = (HashMap::new(), DenialKey::of_ip(Addr::v4([10, 244, 1, 10])));
        let mut added = |packets: u64, ended| {
            let dropped = Count {
                packets,
                bytes: packets * 60,
                openings: packets,
            };
            let added = added(
                &mut read,
                key,
                DenialCount {
                    dropped,
                    ..DenialCount::default()
                },
                ended,
            );
            added
                .into_iter()
                .map(|(outcome, count)| (outcome, count.packets))
                .collect::<Vec<_>>()
        };
        assert_eq!(added(7, false), [(Outcome::Dropped, 7)]);
        assert_eq!(added(7, false), []);
        assert_eq!(added(9, true), [(Outcome::Dropped, 2)]);
        assert_eq!(added(9, false), [(Outcome::Dropped, 9)]);
    }
}

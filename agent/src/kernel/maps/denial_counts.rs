//! `DENIAL_COUNTS`: the packets of each denial, as the kernel counts them. An entry is made before its denial and taken out
//! after it, so that no packet is missed.

use super::Writer;
use super::keyed::take;
use super::write::{BPF_NOEXIST, absent, is_full};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{MapData, MapError, PerCpuHashMap, PerCpuValues};
use epguard_common::{Denial, DenialCount, DenialKey, Reason, Uid};
use epguard_core::plan::Op;
use epguard_core::state::Tables;
use std::io::ErrorKind;

/// The properties that the packets of a denial share. The key of a denial stays while its proof may change.
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
        let denied = tables.denied.get(target).map(|denial| Self::of(target, denial));
        denied.or_else(|| {
            let orphan_ip = tables.terminated.get(&target.addr)?;
            let (target, reason) = (*target, Reason::Terminated);
            let terminated = Self { target, reason, dead: orphan_ip.dead, owner: Uid::NONE };
            (target == DenialKey::of_ip(target.addr)).then_some(terminated)
        })
    }

    fn of(target: &DenialKey, denial: &Denial) -> Self {
        Self { target: *target, reason: denial.reason, dead: denial.dead_uid, owner: denial.owner_uid }
    }
}

/// The kernel's count of a denial since its entry was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The denial.
    pub denied: Denied,
    /// The sum over all processors.
    pub count: DenialCount,
    /// The entry is gone: another one of this key begins at 0.
    pub ended: bool,
}

pub(super) struct DenialCounts {
    map: PerCpuHashMap<MapData, DenialKey, DenialCount>,
    cpus: usize,
    /// Readings of denials that have ended or have another proof since the last call of [`Writer::take_readings`].
    readings: Vec<Reading>,
    uncounted: usize,
}

impl DenialCounts {
    pub fn of(ebpf: &mut Ebpf) -> Result<Self> {
        let cpus =
            aya::util::nr_cpus().map_err(|(file, error)| anyhow::anyhow!("cannot read {file}: {error}"))?;
        Ok(Self { map: take(ebpf, "DENIAL_COUNTS")?.try_into()?, cpus, readings: Vec::new(), uncounted: 0 })
    }

    /// Adds an entry, before the denial itself is written. If the map is full, the denial takes effect without one, and
    /// its packets are counted in COUNTERS only.
    pub fn begin(&mut self, target: &DenialKey) -> Result<(), MapError> {
        let zero =
            PerCpuValues::try_from(vec![DenialCount::default(); self.cpus]).map_err(MapError::IoError)?;
        match self.map.insert(target, zero, BPF_NOEXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if is_full(&error) => {
                self.uncounted += 1;
                Ok(())
            }
            inserted => inserted,
        }
    }

    /// Reads and removes an entry, after the denial itself is removed. An entry that was not installed is not read.
    fn end(&mut self, target: &DenialKey, denied: Option<Denied>) -> Result<(), MapError> {
        denied.map_or(Ok(()), |denied| self.read(denied, true))?;
        absent(self.map.remove(target))
    }

    fn read(&mut self, denied: Denied, ended: bool) -> Result<(), MapError> {
        let per_cpu = match self.map.get(&denied.target, 0) {
            Err(MapError::KeyNotFound) => return Ok(()),
            per_cpu => per_cpu?,
        };
        let count = per_cpu.iter().fold(DenialCount::default(), DenialCount::plus);
        self.readings.push(Reading { denied, count, ended });
        Ok(())
    }
}

impl Writer {
    /// Returns what the kernel counted of denials that ended or got another proof since the last call, in the order of
    /// the changes; then of all installed denials that are `wanted`.
    ///
    /// Errors: `DENIAL_COUNTS` cannot be read.
    pub fn take_readings(&mut self, wanted: impl Fn(&DenialKey) -> bool) -> Result<Vec<Reading>> {
        let denied = self.installed.denied.keys().copied();
        let orphan_ips = self.installed.terminated.keys().map(|ip| DenialKey::of_ip(*ip));
        for target in denied.chain(orphan_ips).filter(wanted) {
            if let Some(denied) = Denied::installed(&self.installed, &target) {
                let read = self.counts.read(denied, false);
                read.context("cannot read DENIAL_COUNTS")?;
            }
        }
        Ok(std::mem::take(&mut self.counts.readings))
    }

    /// How many denials found no room in `DENIAL_COUNTS`.
    #[must_use]
    pub const fn uncounted(&self) -> usize {
        self.counts.uncounted
    }

    /// Reads the counts of denials whose proof changes: the packets until now belong to the proof until now.
    pub(super) fn settle_counts(&mut self, ops: &[Op]) -> Result<()> {
        for op in ops {
            let Op::Denial(target, Some(next)) = op else { continue };
            let before = Denied::installed(&self.installed, target);
            if let Some(before) = before.filter(|before| Denied::of(target, next) != *before) {
                let read = self.counts.read(before, false);
                read.context("cannot read DENIAL_COUNTS")?;
            }
        }
        Ok(())
    }

    /// Reads and removes the count of a denial that has just been removed.
    pub(super) fn end_count(&mut self, target: &DenialKey) -> Result<(), MapError> {
        self.counts.end(target, Denied::installed(&self.installed, target))
    }
}

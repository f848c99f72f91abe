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
        for denied in all(&self.installed).filter(|denied| wanted(&denied.target)) {
            let read = self.counts.read(denied, false);
            read.context("cannot read DENIAL_COUNTS")?;
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
            let Op::PutDenial(target, next) = op else { continue };
            let installed = self.installed.denied.get(target);
            let before = installed.map(|denial| of_denial(target, denial));
            if let Some(before) = before.filter(|before| of_denial(target, next) != *before) {
                let read = self.counts.read(before, false);
                read.context("cannot read DENIAL_COUNTS")?;
            }
        }
        Ok(())
    }

    pub(super) fn end_denial(&mut self, target: &DenialKey) -> Result<(), MapError> {
        let denial = self.installed.denied.get(target);
        let denied = denial.map(|denial| of_denial(target, denial));
        self.counts.end(target, denied)
    }

    pub(super) fn end_terminated(&mut self, target: &DenialKey) -> Result<(), MapError> {
        let orphan_ip = self.installed.terminated.get(&target.addr);
        let denied = orphan_ip.map(|orphan_ip| of_terminated(target.addr, orphan_ip.dead));
        self.counts.end(target, denied)
    }
}

fn all(tables: &Tables) -> impl Iterator<Item = Denied> {
    let denied = tables.denied.iter();
    let terminated = tables.terminated.iter();
    denied
        .map(|(target, denial)| of_denial(target, denial))
        .chain(terminated.map(|(ip, orphan_ip)| of_terminated(*ip, orphan_ip.dead)))
}

fn of_denial(target: &DenialKey, denial: &Denial) -> Denied {
    Denied { target: *target, reason: denial.reason, dead: denial.dead_uid, owner: denial.owner_uid }
}

fn of_terminated(ip: epguard_common::Addr, dead: Uid) -> Denied {
    Denied { target: DenialKey::of_ip(ip), reason: Reason::Terminated, dead, owner: Uid::NONE }
}

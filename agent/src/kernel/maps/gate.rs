//! GATE: which addresses the tables hold, so that the programs end all other packets at a look.

use super::{Writer, take};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::{Addr, Gate, Role, bucket};
use epguard_core::plan::Op;
use epguard_core::state::Tables;
use std::collections::{BTreeSet, HashMap};

/// The table, as it was written last.
pub(super) struct GateMap {
    map: Array<MapData, Gate>,
    written: Box<Gate>,
    /// How many entries of the tables set a bit of a bucket.
    entries: HashMap<(usize, u8), u32>,
    /// Bits that no entry sets any more.
    idle: BTreeSet<(usize, u8)>,
}

impl GateMap {
    /// Takes over the map of a loaded object, and writes what the tables hold.
    pub fn new(ebpf: &mut Ebpf, restored: &Tables) -> Result<Self> {
        let mut gate = Self {
            map: take(ebpf, "GATE")?.try_into()?,
            written: Box::new(Gate::EMPTY),
            entries: HashMap::new(),
            idle: BTreeSet::new(),
        };
        // Until the roles of all interfaces are known.
        gate.written.relabels = 1;
        for (addr, bit) in entries(restored) {
            gate.count(addr, bit);
            gate.written.add(addr, bit);
        }
        gate.write()?;
        Ok(gate)
    }

    /// Adds what the programs need to see entries that are written next.
    ///
    /// Errors: the map cannot be written; then the entries must not be written either.
    pub fn open_for(&mut self, ops: &[Op]) -> Result<()> {
        let entries = ops.iter().filter_map(entry);
        let mut changed = false;
        for (addr, bit, _) in entries.filter(|(_, _, added)| *added) {
            changed |= self.written.buckets[bucket(addr.words())] & bit == 0;
            self.written.add(addr, bit);
        }
        if changed { self.write() } else { Ok(()) }
    }

    /// Counts an entry that was written.
    pub fn count(&mut self, addr: Addr, bit: u8) {
        let key = (bucket(addr.words()), bit);
        *self.entries.entry(key).or_default() += 1;
        self.idle.remove(&key);
    }

    /// Counts an entry that was removed.
    pub fn uncount(&mut self, addr: Addr, bit: u8) {
        let key = (bucket(addr.words()), bit);
        if let Some(entries) = self.entries.get_mut(&key) {
            *entries -= 1;
            if *entries == 0 {
                self.entries.remove(&key);
                self.idle.insert(key);
            }
        }
    }

    /// Removes what belongs to no entry any more.
    pub fn close(&mut self) -> Result<()> {
        if self.idle.is_empty() {
            return Ok(());
        }
        for (bucket, bit) in std::mem::take(&mut self.idle) {
            self.written.buckets[bucket] &= !bit;
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        self.map.set(0, *self.written, 0).context("cannot write GATE")
    }
}

impl Writer {
    /// Tells the programs whether packets of the node's own sockets may leave by several hooks, given the roles of all hooked
    /// interfaces.
    pub fn set_relabels(&mut self, mut roles: impl Iterator<Item = Option<Role>>) {
        let relabels = roles.any(|role| !matches!(role, Some(Role::Pod | Role::Uplink)));
        if self.gate.written.relabels == u32::from(relabels) {
            return;
        }
        let before = std::mem::replace(&mut self.gate.written.relabels, relabels.into());
        if let Err(error) = self.gate.write() {
            self.gate.written.relabels = before;
            tracing::warn!(
                error = format!("{error:#}"),
                "packets of the node's own sockets are judged as before"
            );
        }
    }
}

/// The address and the bit of an entry, and whether it is added; none for a table that the gate does not show.
pub(super) fn entry(op: &Op) -> Option<(Addr, u8, bool)> {
    Some(match op {
        Op::PutSuspect(ip, _) => (*ip, Gate::SUSPECT, true),
        Op::RemoveSuspect(ip) => (*ip, Gate::SUSPECT, false),
        Op::PutService(vip, _) => (vip.addr, Gate::SERVICE, true),
        Op::RemoveService(vip) => (vip.addr, Gate::SERVICE, false),
        Op::PutTerminated(ip, _) => (*ip, Gate::TERMINATED, true),
        Op::RemoveTerminated(ip) => (*ip, Gate::TERMINATED, false),
        _ => return None,
    })
}

fn entries(tables: &Tables) -> impl Iterator<Item = (Addr, u8)> {
    let suspects = tables.suspects.keys().map(|ip| (*ip, Gate::SUSPECT));
    let services = tables.services.keys().map(|vip| (vip.addr, Gate::SERVICE));
    let terminated = tables.terminated.keys().map(|ip| (*ip, Gate::TERMINATED));
    suspects.chain(services).chain(terminated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{Slot, Suspect, Vip};

    #[test]
    fn each_table_has_its_bit() {
        let (suspect, service) = (Addr::v4([10, 244, 1, 1]), Addr::v4([10, 96, 0, 1]));
        let mut tables = Tables::default();
        tables.suspects.insert(suspect, Suspect::default());
        let vip = Vip {
            addr: service,
            ..Vip::default()
        };
        tables.services.insert(vip, Slot { number: 0x8001 });
        let all: Vec<(Addr, u8)> = entries(&tables).collect();
        assert_eq!(all, [(suspect, Gate::SUSPECT), (service, Gate::SERVICE)]);
    }
}

//! GATE: which addresses the tables hold, so that the programs end all other packets at a look.

use super::take;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::{Addr, Gate, bucket};
use epguard_core::plan::Op;
use epguard_core::state::Tables;
use std::collections::{BTreeSet, HashMap};

/// The table, as it was written last.
pub(super) struct GateMap {
    map: Array<MapData, Gate>,
    written: Box<Gate>,
    /// How many entries of the tables, and addresses of flows, set a bit of a bucket.
    entries: HashMap<(usize, u8), u32>,
    /// Bits that none of them sets.
    idle: BTreeSet<(usize, u8)>,
    /// The addresses of flows that may go on. Unknown for those of an earlier process, until all have ended once.
    flows: Option<BTreeSet<Addr>>,
}

impl GateMap {
    /// Takes over the map of a loaded object, and writes what the tables hold.
    pub fn new(ebpf: &mut Ebpf, restored: &Tables) -> Result<Self> {
        let mut gate = Self {
            map: take(ebpf, "GATE")?,
            written: Box::new(Gate::EMPTY),
            entries: HashMap::new(),
            idle: BTreeSet::new(),
            flows: None,
        };
        let mut wanted = gate.written.clone();
        wanted.valid &= !Gate::SHOWS_FLOWS;
        for (addr, bit) in entries(restored) {
            gate.count(addr, bit);
            wanted.add(addr, bit);
        }
        gate.keep_bits(&mut wanted);
        gate.write(wanted)?;
        Ok(gate)
    }

    /// Adds what the programs need to see entries that are written next.
    ///
    /// Errors: the map cannot be written; then the entries must not be written either.
    pub fn open_for(&mut self, ops: &[Op]) -> Result<()> {
        let mut wanted = self.written.clone();
        for (addr, bit, _) in ops.iter().filter_map(entry).filter(|(_, _, added)| *added) {
            wanted.add(addr, bit);
            let key = (bucket(addr.words()), bit);
            if !self.entries.contains_key(&key) {
                self.idle.insert(key);
            }
        }
        for addr in ops.iter().flat_map(flow_ends) {
            if let Some(flows) = &mut self.flows {
                wanted.add(addr, Gate::FLOW);
                if flows.insert(addr) {
                    self.count(addr, Gate::FLOW);
                }
            }
        }
        if wanted == self.written {
            return Ok(());
        }
        self.write(wanted)
    }

    /// Adds the bits of the table in the kernel, until it is closed: a program that has just read `SHOWS_FLOWS` of an earlier
    /// process reads its bucket next.
    fn keep_bits(&mut self, wanted: &mut Gate) {
        let Ok(known) = self.map.get(&0, 0) else {
            return;
        };
        for (bucket, bits) in known.buckets.iter().enumerate() {
            wanted.buckets[bucket] |= bits;
            let set = [Gate::SUSPECT, Gate::TERMINATED, Gate::FLOW].into_iter();
            let idle = set.filter(|bit| bits & bit != 0 && !self.entries.contains_key(&(bucket, *bit)));
            self.idle.extend(idle.map(|bit| (bucket, bit)));
        }
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

    /// Removes what belongs to no entry.
    pub fn close(&mut self) {
        let mut wanted = self.written.clone();
        for (bucket, bit) in &self.idle {
            wanted.buckets[*bucket] &= !bit;
        }
        if self.flows.is_some() {
            wanted.valid |= Gate::SHOWS_FLOWS;
        }
        if wanted != self.written
            && let Err(error) = self.write(wanted)
        {
            // The next change tries again.
            tracing::warn!(
                error = format!("{error:#}"),
                "packets that need no verdict are judged all the same"
            );
            return;
        }
        self.idle.clear();
    }

    /// Forgets the addresses of redirected flows, which have all ended: VIEW has none. True if there is something to close.
    pub fn forget_flows(&mut self) -> bool {
        let ended = self.flows.replace(BTreeSet::new());
        let some = ended.as_ref().is_none_or(|flows| !flows.is_empty());
        for addr in ended.into_iter().flatten() {
            self.uncount(addr, Gate::FLOW);
        }
        some
    }

    fn write(&mut self, wanted: Box<Gate>) -> Result<()> {
        self.map.set(0, *wanted, 0).context("cannot write GATE")?;
        self.written = wanted;
        Ok(())
    }
}

/// The address and the bit of an entry, and whether it is added; none for a table that the gate does not show.
pub(super) fn entry(op: &Op) -> Option<(Addr, u8, bool)> {
    Some(match op {
        Op::Suspect(ip, suspect) => (*ip, Gate::SUSPECT, suspect.is_some()),
        Op::Terminated(ip, orphan_ip) => (*ip, Gate::TERMINATED, orphan_ip.is_some()),
        _ => return None,
    })
}

fn entries(tables: &Tables) -> impl Iterator<Item = (Addr, u8)> {
    let suspects = tables.suspects.keys().map(|ip| (*ip, Gate::SUSPECT));
    let terminated = tables.terminated.keys().map(|ip| (*ip, Gate::TERMINATED));
    suspects.chain(terminated)
}

/// Where packets of flows go to and come from that a denial redirects from now on: the denied endpoint, and the live ones.
fn flow_ends(op: &Op) -> impl Iterator<Item = Addr> {
    let redirect = match op {
        Op::Backends(target, Some(backends)) => Some((target, backends)),
        _ => None,
    };
    redirect.into_iter().flat_map(|(target, backends)| {
        let live = backends.live.iter().take(backends.count as usize);
        std::iter::once(target.addr).chain(live.map(|live| live.addr))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{Mode, Suspect, Uid};
    use epguard_core::state::OrphanIp;

    #[test]
    fn each_table_has_its_bit() {
        let [suspect, orphan] = [[10, 244, 1, 1], [10, 244, 1, 9]].map(Addr::v4);
        let mut tables = Tables::default();
        tables.suspects.insert(suspect, Suspect::default());
        let orphan_ip = OrphanIp { dead: Uid::default(), mode: Mode::Enforce, lifted: None };
        tables.terminated.insert(orphan, orphan_ip);
        let all: Vec<(Addr, u8)> = entries(&tables).collect();
        let bits = [(suspect, Gate::SUSPECT), (orphan, Gate::TERMINATED)];
        assert_eq!(all, bits);
    }
}

//! GATE and `SECOND_GATE`: which addresses the tables hold, so that the programs end all other
//! packets at a look.

use super::pinned::take_map;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::{Addr, Gate, Gates};
use epguard_core::plan::Op;
use epguard_core::state::Tables;

/// The tables, as they were written last.
pub(super) struct GateMap {
    first: Array<MapData, Gate>,
    second: Array<MapData, Gate>,
    written: Box<Gates>,
    /// The bits of flows that may go on. Unknown for those of an earlier process, until all have
    /// ended once.
    flows: Option<Box<Gates>>,
}

impl GateMap {
    /// Takes over the maps of a loaded object, and writes what the tables hold. The bits in the
    /// kernel stay until they are closed: a program that has just read `SHOWS_FLOWS` of an earlier
    /// process reads its bucket next.
    pub fn new(ebpf: &mut Ebpf, restored: &Tables) -> Result<Self> {
        let first: Array<_, Gate> = take_map(ebpf, "GATE")?;
        let second: Array<_, Gate> = take_map(ebpf, "SECOND_GATE")?;
        let written = Box::new(Gates {
            first: first.get(&0, 0).context("cannot read GATE")?,
            second: second.get(&0, 0).context("cannot read SECOND_GATE")?,
        });
        let mut gate = Self {
            first,
            second,
            written,
            flows: None,
        };
        let mut wanted = gate.gates_of(restored);
        for (bits, known) in wanted.bits_mut().zip(gate.written.bits()) {
            *bits |= known;
        }
        gate.write(&wanted)?;
        Ok(gate)
    }

    /// What the programs need to see of the tables, and of flows.
    fn gates_of(&self, tables: &Tables) -> Box<Gates> {
        let mut gates = self.flows.clone().unwrap_or_else(|| Box::new(Gates::EMPTY));
        if self.flows.is_none() {
            gates.first.valid &= !Gate::SHOWS_FLOWS;
        }
        entries(tables).for_each(|(addr, bit)| gates.add(addr, bit));
        gates
    }

    /// Adds what the programs need to see entries that are written next.
    ///
    /// Errors: the map cannot be written; then the entries must not be written either.
    pub fn open_for(&mut self, ops: &[Op]) -> Result<()> {
        let mut wanted = self.written.clone();
        ops.iter()
            .filter_map(added)
            .for_each(|(addr, bit)| wanted.add(addr, bit));
        if let Some(flows) = &mut self.flows {
            for addr in ops.iter().flat_map(flow_ends) {
                wanted.add(addr, Gate::FLOW);
                flows.add(addr, Gate::FLOW);
            }
        }
        self.write(&wanted)
    }

    /// Removes what belongs to no entry. Adds nothing: an entry whose bit is missing was written
    /// too early.
    pub fn close(&mut self, installed: &Tables) {
        let mut wanted = self.gates_of(installed);
        for (bits, known) in wanted.bits_mut().zip(self.written.bits()) {
            *bits &= known;
        }
        if let Err(error) = self.write(&wanted) {
            // The next change tries again.
            tracing::warn!(
                error = format!("{error:#}"),
                "packets that need no verdict are judged all the same"
            );
        }
    }

    /// Forgets redirected flows, which have all ended: VIEW has none. True if there is something to
    /// close.
    pub fn forget_flows(&mut self) -> bool {
        if self.flows.as_deref() == Some(&Gates::EMPTY) {
            return false;
        }
        self.flows = Some(Box::new(Gates::EMPTY));
        true
    }

    /// Writes the second table before the first one, which says that the second shows all
    /// addresses.
    fn write(&mut self, wanted: &Gates) -> Result<()> {
        if wanted.second != self.written.second {
            self.second
                .set(0, wanted.second, 0)
                .context("cannot write SECOND_GATE")?;
            self.written.second = wanted.second;
        }
        if wanted.first != self.written.first {
            self.first
                .set(0, wanted.first, 0)
                .context("cannot write GATE")?;
            self.written.first = wanted.first;
        }
        Ok(())
    }
}

/// The address and the bit of an entry that is added; none for a table that the gate does not show.
fn added(op: &Op) -> Option<(Addr, u8)> {
    match op {
        Op::Suspect(ip, Some(_)) => Some((*ip, Gate::SUSPECT)),
        Op::Terminated(ip, Some(_)) => Some((*ip, Gate::TERMINATED)),
        _ => None,
    }
}

fn entries(tables: &Tables) -> impl Iterator<Item = (Addr, u8)> {
    let suspects = tables.suspects.keys().map(|ip| (*ip, Gate::SUSPECT));
    let terminated = tables.terminated.keys().map(|ip| (*ip, Gate::TERMINATED));
    suspects.chain(terminated)
}

/// Where packets of flows go to and come from that a denial redirects from now on: the denied
/// endpoint, and the live ones.
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
        let orphan_ip = OrphanIp {
            dead: Uid::default(),
            mode: Mode::Enforce,
            range: Addr::default(),
            lifted: None,
        };
        tables.terminated.insert(orphan, orphan_ip);
        let all: Vec<(Addr, u8)> = entries(&tables).collect();
        let bits = [(suspect, Gate::SUSPECT), (orphan, Gate::TERMINATED)];
        assert_eq!(all, bits);
    }
}

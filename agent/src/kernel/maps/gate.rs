//! GATE: which addresses the tables hold, so that the programs end all other packets at a look.

use super::{Writer, flows, take};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::{Addr, Backends, DenialKey, Gate, Role};
use epguard_core::state::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// The table, as it was written last.
pub(super) struct GateMap {
    map: Array<MapData, Gate>,
    written: Box<Gate>,
    /// The addresses of flows that may go on. Unknown for those of an earlier process, until all have ended once.
    flows: Option<BTreeSet<Addr>>,
}

impl GateMap {
    /// Takes over the map of a loaded object, and writes what the tables hold.
    pub fn new(ebpf: &mut Ebpf, restored: &Tables) -> Result<Self> {
        let mut gate = Self {
            map: take(ebpf, "GATE")?.try_into()?,
            written: Box::new(Gate::EMPTY),
            flows: None,
        };
        let mut wanted = gate.of(restored);
        // Until the roles of all interfaces are known.
        wanted.relabels = 1;
        gate.write(wanted)?;
        Ok(gate)
    }

    /// Adds what the programs need to see entries that are written next.
    ///
    /// Errors: the map cannot be written; then the entries must not be written either.
    pub fn open_for(&mut self, desired: &Tables) -> Result<()> {
        if let Some(flows) = &mut self.flows {
            flows.extend(flow_ends(&desired.backends));
        }
        let mut wanted = self.of(desired);
        wanted.add_all(&self.written);
        self.write(wanted)
    }

    /// Removes what belongs to no entry any more.
    pub fn close_but_for(&mut self, installed: &Tables) {
        let mut wanted = self.of(installed);
        wanted.relabels = self.written.relabels;
        self.narrow(wanted);
    }

    /// Removes the addresses of redirected flows, which have all ended: VIEW has none.
    pub fn end_flows(&mut self, installed: &Tables) {
        let ended = self.flows.replace(BTreeSet::new());
        if ended.is_none_or(|flows| !flows.is_empty()) {
            self.close_but_for(installed);
        }
    }

    /// What the programs need to see these tables and the flows.
    fn of(&self, tables: &Tables) -> Box<Gate> {
        let mut gate = of(tables);
        match &self.flows {
            Some(flows) => flows.iter().for_each(|ip| gate.add(*ip, Gate::FLOW)),
            None => gate.valid &= !Gate::SHOWS_FLOWS,
        }
        gate
    }

    /// Writes a table by which more packets end at the gate. An error costs their time only: the next change tries again.
    fn narrow(&mut self, wanted: Box<Gate>) {
        if let Err(error) = self.write(wanted) {
            let error = format!("{error:#}");
            tracing::warn!(error, "packets that need no verdict are judged all the same");
        }
    }

    fn write(&mut self, wanted: Box<Gate>) -> Result<()> {
        self.map.set(0, *wanted, 0).context("cannot write GATE")?;
        self.written = wanted;
        Ok(())
    }
}

impl Writer {
    /// Tells the programs whether packets of the node's own sockets may leave by several hooks, given the roles of all selected
    /// interfaces.
    pub fn set_relabels(&mut self, mut roles: impl Iterator<Item = Option<Role>>) {
        let relabels = roles.any(|role| !matches!(role, Some(Role::Pod | Role::Uplink)));
        if self.gate.written.relabels == u32::from(relabels) {
            return;
        }
        let mut wanted = self.gate.written.clone();
        wanted.relabels = relabels.into();
        self.gate.narrow(wanted);
    }
}

fn of(tables: &Tables) -> Box<Gate> {
    let mut gate = Box::new(Gate::EMPTY);
    for ip in tables.suspects.keys() {
        gate.add(*ip, Gate::SUSPECT);
    }
    for vip in tables.services.keys() {
        gate.add(vip.addr, Gate::SERVICE);
    }
    for ip in tables.terminated.keys() {
        gate.add(*ip, Gate::TERMINATED);
    }
    gate
}

/// Where packets of redirected flows go to and come from: the denied endpoints, and the live ones.
fn flow_ends(backends: &BTreeMap<DenialKey, Backends>) -> impl Iterator<Item = Addr> {
    let denied = backends.keys().map(|target| target.addr);
    denied.chain(flows::live(backends).into_iter().map(|live| live.addr))
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{Mode, Slot, Suspect, Uid, Vip, bucket};
    use epguard_core::state::OrphanIp;

    #[test]
    fn each_table_has_its_bit() {
        let [suspect, service, orphan] = [[10, 244, 1, 1], [10, 96, 0, 1], [10, 244, 1, 9]].map(Addr::v4);
        let mut tables = Tables::default();
        tables.suspects.insert(suspect, Suspect::default());
        let vip = Vip {
            addr: service,
            ..Vip::default()
        };
        tables.services.insert(vip, Slot { number: 0x8001 });
        let orphan_ip = OrphanIp {
            dead: Uid::default(),
            mode: Mode::Enforce,
            lifted: None,
        };
        tables.terminated.insert(orphan, orphan_ip);
        let gate = of(&tables);
        let bits = |addr: Addr| gate.buckets[bucket(addr.words())];
        let all = [Gate::SUSPECT, Gate::SERVICE, Gate::TERMINATED];
        assert_eq!([suspect, service, orphan].map(bits), all);
        assert_eq!(gate.buckets.iter().filter(|bits| **bits != 0).count(), 3);
    }
}

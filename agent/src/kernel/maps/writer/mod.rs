//! Writes the agent's tables into the maps.

mod terminated;
mod write;

use super::config::PinnedConfig;
use super::counters::{DenialCounts, PacketCounts, Reading};
use super::flows::Flows;
use super::gate::GateMap;
use super::keyed::KeyedMap;
use super::lifts::{Lift, orphan_ip};
use super::pinned::take_map;
use super::view::{ViewMap, count};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use epguard_common::{
    Addr, Backends, DenialKey, Outcome, Owner, Rate, RawDenial, RawRole, ServiceNumber, Suspect,
    Terminated, Vip,
};
use epguard_core::plan::{self, Op};
use epguard_core::state::{Changes, Tables};
use std::collections::{BTreeMap, BTreeSet};

/// Writes the agent's state into the maps.
pub struct Writer {
    /// CONFIG.
    pub config: PinnedConfig,
    /// VIEW.
    pub view: ViewMap,
    owners: HashMap<MapData, Addr, Owner>,
    suspects: KeyedMap<Addr, Suspect>,
    services: KeyedMap<Vip, ServiceNumber>,
    denied: KeyedMap<DenialKey, RawDenial>,
    backends: KeyedMap<DenialKey, Backends>,
    terminated: KeyedMap<Addr, Terminated>,
    interfaces: KeyedMap<u32, RawRole>,
    gate: GateMap,
    installed: Tables,
    /// Keys of entries that the kernel had no room for.
    to_retry: Changes,
    /// Entries that the kernel had no room for when the tables were written last.
    left_out: usize,
    counts: DenialCounts,
    packets: PacketCounts,
    flows: Flows,
    flows_go_on: bool,
    /// Lifts of removed entries, until [`Writer::take_lifts`] returns them.
    lifts: Vec<Lift>,
    /// Whether replies of redirected flows meet a hook at every interface.
    translates_replies: bool,
    restored_owners: BTreeMap<Addr, Owner>,
    /// Restored owners that are the same pods now, and are still to be written.
    kept_owners: BTreeSet<Addr>,
}

impl Writer {
    /// Takes over the maps of a loaded object: the denials and the lease of an earlier process stay
    /// until [`Writer::install`].
    pub fn new(ebpf: &mut Ebpf) -> Result<Self> {
        let mut view = ViewMap::take_from(ebpf)?;
        let owners: HashMap<_, Addr, Owner> = take_map(ebpf, "OWNERS")?;
        let suspects: KeyedMap<Addr, Suspect> = take_map(ebpf, "SUSPECTS")?;
        let services: KeyedMap<Vip, ServiceNumber> = take_map(ebpf, "SERVICES")?;
        let denied: KeyedMap<DenialKey, RawDenial> = take_map(ebpf, "DENIED")?;
        let backends: KeyedMap<DenialKey, Backends> = take_map(ebpf, "BACKENDS")?;
        let terminated: KeyedMap<Addr, Terminated> = take_map(ebpf, "TERMINATED")?;
        let mut restored = Tables::default();
        let mut unreadable = Vec::new();
        for (key, raw) in denied.entries().context("cannot read DENIED")? {
            if let Some(denial) = raw.checked() {
                restored.denied.insert(key, denial);
            } else {
                unreadable.push(key);
            }
        }
        for (ip, suspect) in suspects.entries().context("cannot read SUSPECTS")? {
            // Its rate is telemetry, which the programs begin anew.
            let rate = Rate::default();
            restored.suspects.insert(ip, Suspect { rate, ..suspect });
        }
        let entries = backends.entries().context("cannot read BACKENDS")?;
        restored.backends = entries.into_iter().collect();
        let entries = services.entries().context("cannot read SERVICES")?;
        restored.services = entries.into_iter().collect();
        for (ip, entry) in terminated.entries().context("cannot read TERMINATED")? {
            restored.terminated.insert(ip, orphan_ip(&entry));
        }
        view.restore(&restored)?;
        let mut writer = Self {
            config: PinnedConfig::take_from(ebpf)?,
            view,
            restored_owners: owners
                .iter()
                .collect::<Result<_, _>>()
                .context("cannot read OWNERS")?,
            owners,
            suspects,
            services,
            denied,
            backends,
            terminated,
            interfaces: take_map(ebpf, "INTERFACES")?,
            gate: GateMap::new(ebpf, &restored)?,
            installed: restored,
            to_retry: Changes::default(),
            left_out: 0,
            counts: DenialCounts::take_from(ebpf)?,
            packets: PacketCounts::take_from(ebpf)?,
            flows: Flows::take_from(ebpf)?,
            flows_go_on: true,
            lifts: Vec::new(),
            translates_replies: true,
            kept_owners: BTreeSet::new(),
        };
        // Denials that no epguard wrote; the programs ignore them.
        for key in unreadable {
            writer
                .write(&Op::Denial(key, None))
                .context("cannot write DENIED")?;
        }
        Ok(writer)
    }

    /// Before the first [`Writer::install`], the tables that an earlier process left: SUSPECTS,
    /// SERVICES, DENIED, BACKENDS and TERMINATED.
    pub const fn restored(&self) -> &Tables {
        &self.installed
    }

    /// True if restored owners are still to be written.
    pub fn has_backlog(&self) -> bool {
        !(self.restored_owners.is_empty() && self.kept_owners.is_empty())
    }

    /// Entries that the kernel had no room for when the tables were written last: those packets
    /// pass, or are rejected instead of redirected.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Writes the difference between what is installed and what is desired; false if there is none.
    pub fn install(&mut self, desired: &Tables) -> Result<bool> {
        let changes = Changes::between(&self.installed, desired);
        self.install_changes(desired, changes)
    }

    /// The same if only these keys may differ. Of the tables it reads all suspects and orphan IPs,
    /// for the gate.
    pub fn install_changes(&mut self, desired: &Tables, mut changes: Changes) -> Result<bool> {
        changes.extend(std::mem::take(&mut self.to_retry));
        let mut ops = plan::tables(&self.installed, desired, &changes);
        if !self.translates_replies {
            self.keep_new_backends(&mut ops);
        }
        if ops.is_empty() {
            return Ok(false);
        }
        // Before the first entry, and after the last: a packet that the gate ends lifts no denial.
        self.gate.open_for(&ops)?;
        self.view.reserve_numbers(&ops)?;
        self.counts.settle(&self.installed, &ops)?;
        self.left_out = 0;
        if ops.iter().any(|op| matches!(op, Op::Backends(..))) && !desired.backends.is_empty() {
            // The programs look for answers to translate back, before the first flow may open.
            self.view.change(|view| view.flows = view.flows.max(1))?;
        }
        for op in &ops {
            self.write_or_leave_out(op)
                .with_context(|| format!("cannot write {op:?}"))?;
        }
        if ops.iter().any(|op| matches!(op, Op::Backends(_, None))) {
            // The programs may have redirected flows there since the last sweep.
            self.flows_go_on = true;
            self.flows.sweep_soon();
        }
        let flows = self.flow_count();
        self.view.change(|view| {
            view.suspects = count(desired.suspects.len());
            view.terminated = count(desired.terminated.len());
            view.flows = flows;
        })?;
        if flows == 0 {
            self.gate.forget_flows();
        }
        self.gate.close(&self.installed);
        Ok(true)
    }

    /// Whether every interface has the hook that translates replies of redirected flows; true at
    /// the start. While one has not, [`Writer::install_changes`] keeps new endpoints out of
    /// BACKENDS: what only these could take is rejected or dropped.
    pub const fn translate_replies(&mut self, everywhere: bool) {
        self.translates_replies = everywhere;
    }

    /// Whether that is so.
    pub const fn translates_replies(&self) -> bool {
        self.translates_replies
    }

    /// Packets to suspects that passed, by the cause.
    pub fn passed(&self) -> BTreeMap<Outcome, u64> {
        self.packets.passed()
    }

    /// The counts of denials, as of `DenialCounts::take_readings`. Errors: `DENIAL_COUNTS` cannot
    /// be read.
    pub fn take_readings(&mut self, wanted: impl Fn(&DenialKey) -> bool) -> Result<Vec<Reading>> {
        self.counts.take_readings(&self.installed, wanted)
    }

    /// How many denials found no room in `DENIAL_COUNTS`.
    pub const fn uncounted(&self) -> u64 {
        self.counts.uncounted()
    }

    /// Removes flows that are over. Costs nothing if none can go on or begin.
    pub fn sweep_flows(&mut self) -> Result<()> {
        if self.view.written().flows == 0 && !self.flows_go_on {
            return Ok(());
        }
        self.flows_go_on = self.flows.sweep()?;
        let flows = self.flow_count();
        self.view.change(|view| view.flows = flows)?;
        if flows == 0 && self.gate.forget_flows() {
            self.gate.close(&self.installed);
        }
        Ok(())
    }

    /// Whether redirected flows go on: then the view has to stay fresh for them.
    pub const fn has_redirected_flows(&self) -> bool {
        self.view.written().flows != 0 && self.flows_go_on
    }

    /// Whether a flow may be redirected, or was at the last sweep.
    pub fn redirects(&self) -> bool {
        !self.installed.backends.is_empty() || self.flows.go_on()
    }

    /// How many redirected connections were in FLOWS at the last sweep.
    pub const fn redirected(&self) -> usize {
        self.flows.proven()
    }

    fn flow_count(&self) -> u32 {
        u32::from(self.flows_go_on) + count(self.installed.backends.len())
    }
}

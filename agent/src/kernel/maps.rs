//! Writes the pinned maps: no other module does, except for MACS (`datapath/xdp`) and the maps of
//! Cilium's maps (`cilium`), which the thread of the hooks writes.

mod config;
mod counters;
mod flows;
#[cfg(test)]
mod fuzz;
mod gate;
mod keyed;
mod lock;
mod terminated;
mod view;
mod write;

pub use config::{ConfigMap, configuration, default_modes, set_action, set_mode, show_mode};
pub use counters::{Counters, Denied, Reading, counters, packets};
pub use keyed::KeyedMap;
pub use lock::{no_agent, only_agent};
pub use terminated::Lift;
pub use view::ViewMap;

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, Map, MapData, MapError};
use counters::DenialCounts;
use epguard_common::{
    ABI_VERSION, Addr, Backends, DenialKey, Owner, Rate, RawDenial, RawRole, ServiceNumber,
    Suspect, Terminated, Vip,
};
use epguard_core::plan::{self, Op};
use epguard_core::state::{Changes, Tables};
use flows::Flows;
use gate::GateMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use view::count;

/// The names of all maps of the datapath, as pinned.
#[rustfmt::skip]
pub const NAMES: [&str; 34] = [
    "GATE", "SECOND_GATE", "OWNERS", "SUSPECTS", "SERVICES", "DENIED", "BACKENDS", "FLOWS", "RETURNS", "OPENING", "OPENING_RETURNS",
    "CLIENTS", "TERMINATED", "INTERFACES", "MACS", "CONNECTIONS", "CONFIG", "VIEW", "COUNTERS", "DENIAL_COUNTS", "EVENTS",
    "ANSWERS", "CILIUM_CT4", "CILIUM_CT6", "CILIUM_NAT4", "CILIUM_NAT6", "CILIUM_SK4", "CILIUM_SK6",
    "CILIUM_CT4_CPU", "CILIUM_CT6_CPU", "CILIUM_NAT4_PRE", "CILIUM_NAT6_PRE", "CILIUM_SK4_CPU", "CILIUM_SK6_CPU",
];

/// The directory of the maps of this version, `<pin-dir>/v3`.
pub fn directory(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{ABI_VERSION}"))
}

/// Opens a pinned map. Errors: none is pinned there, or it has another layout.
pub fn open<T: TryFrom<Map, Error = MapError>>(pin_dir: &Path, name: &str) -> Result<T> {
    let path = directory(pin_dir).join(name);
    let map = MapData::from_pin(&path).with_context(|| {
        format!(
            "no map at {}: is `epguard agent` running with this --pin-dir?",
            path.display()
        )
    })?;
    let map = Map::from_map_data(map).and_then(T::try_from);
    map.with_context(|| {
        format!("{name} has another layout: use the `epguard` of the agent that runs, in its pod")
    })
}

/// Takes a map out of a loaded object.
fn take<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<T> {
    let map = ebpf.take_map(name);
    let map = map.with_context(|| {
        format!("the eBPF object has no map {name}: rebuild with `cargo xtask build`")
    })?;
    T::try_from(map).with_context(|| format!("{name} has another layout"))
}

/// Writes the agent's state into the maps.
pub struct Writer {
    /// CONFIG.
    pub config: ConfigMap,
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
        let owners: HashMap<_, Addr, Owner> = take(ebpf, "OWNERS")?;
        let suspects: KeyedMap<Addr, Suspect> = take(ebpf, "SUSPECTS")?;
        let services: KeyedMap<Vip, ServiceNumber> = take(ebpf, "SERVICES")?;
        let denied: KeyedMap<DenialKey, RawDenial> = take(ebpf, "DENIED")?;
        let backends: KeyedMap<DenialKey, Backends> = take(ebpf, "BACKENDS")?;
        let terminated: KeyedMap<Addr, Terminated> = take(ebpf, "TERMINATED")?;
        let (mut restored, mut unreadable) = (Tables::default(), Vec::new());
        for (target, raw) in denied.entries().context("cannot read DENIED")? {
            match raw.checked() {
                Some(denial) => drop(restored.denied.insert(target, denial)),
                None => unreadable.push(target),
            }
        }
        let without_telemetry = |(ip, suspect)| {
            (
                ip,
                Suspect {
                    rate: Rate::default(),
                    ..suspect
                },
            )
        };
        let entries = suspects.entries().context("cannot read SUSPECTS")?;
        restored.suspects = entries.into_iter().map(without_telemetry).collect();
        restored.backends = backends
            .entries()
            .context("cannot read BACKENDS")?
            .into_iter()
            .collect();
        restored.services = services
            .entries()
            .context("cannot read SERVICES")?
            .into_iter()
            .collect();
        let entries = terminated
            .entries()
            .context("cannot read TERMINATED")?
            .into_iter();
        restored.terminated = entries
            .map(|(ip, entry)| (ip, terminated::orphan_ip(&entry)))
            .collect();
        view.restore(&restored)?;
        let mut writer = Self {
            config: ConfigMap::take_from(ebpf)?,
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
            interfaces: take(ebpf, "INTERFACES")?,
            gate: GateMap::new(ebpf, &restored)?,
            installed: restored,
            to_retry: Changes::default(),
            left_out: 0,
            counts: DenialCounts::take_from(ebpf)?,
            flows: Flows::take_from(ebpf)?,
            flows_go_on: true,
            lifts: Vec::new(),
            translates_replies: true,
            kept_owners: BTreeSet::new(),
        };
        // Denials that no epguard wrote; the programs ignore them.
        for target in unreadable {
            writer
                .write(&Op::Denial(target, None))
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

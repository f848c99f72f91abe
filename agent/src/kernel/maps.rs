//! Writes the pinned maps: no other module does, except for MACS (`datapath/xdp`).

mod config;
mod counters;
mod denial_counts;
mod flows;
mod full;
mod gate;
mod keyed;
mod lock;
mod modes;
mod names;
mod owners;
mod restored;
mod roles;
mod terminated;
mod view;

pub use config::{configuration, set_action};
pub use counters::{Counters, counters, packets};
pub use denial_counts::{Denied, Reading};
pub use keyed::KeyedMap;
pub use lock::only_agent;
pub use modes::{default_modes, set_mode, show_mode};
pub use names::NAMES;
pub use terminated::Lift;

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use denial_counts::DenialCounts;
use epguard_common::{
    ABI_VERSION, Addr, Backends, DenialKey, Owner, RawConfig, RawDenial, RawRole, ServiceNumber, Suspect,
    Terminated, View, Vip,
};
use epguard_core::plan::{self, Op};
use epguard_core::state::{Changes, Tables};
use flows::Flows;
use full::absent;
use gate::GateMap;
use keyed::take;
use lock::ConfigLock;
use restored::Restored;
use std::path::{Path, PathBuf};
use terminated::Sightings;

/// The directory of the maps of this version, `<pin-dir>/v3`.
#[must_use]
pub fn directory(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{ABI_VERSION}"))
}

/// Opens a pinned map.
pub fn open(pin_dir: &Path, name: &str) -> Result<MapData> {
    let path = directory(pin_dir).join(name);
    MapData::from_pin(&path).with_context(|| {
        format!("no map at {}: is `epguard agent` running with this --pin-dir?", path.display())
    })
}

/// Writes the agent's state into the maps and renews their lease.
pub struct Writer {
    owners: HashMap<MapData, Addr, Owner>,
    suspects: KeyedMap<Addr, Suspect>,
    services: KeyedMap<Vip, ServiceNumber>,
    denied: KeyedMap<DenialKey, RawDenial>,
    backends: KeyedMap<DenialKey, Backends>,
    terminated: KeyedMap<Addr, Terminated>,
    interfaces: KeyedMap<u32, RawRole>,
    config: Array<MapData, RawConfig>,
    config_lock: Option<ConfigLock>,
    view: Array<MapData, View>,
    written_view: View,
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
    sightings: Sightings,
    restored: Restored,
}

impl Writer {
    /// Takes over the maps of a loaded object: the denials and the lease of an earlier process stay until [`Writer::install`].
    pub fn new(ebpf: &mut Ebpf) -> Result<Self> {
        let restored = Restored::read(ebpf)?;
        let view: Array<_, View> = take(ebpf, "VIEW")?.try_into()?;
        let pinned = view.get(&0, 0).context("cannot read VIEW")?;
        let written_view = view::restored(pinned, &restored.tables);
        let mut writer = Self {
            owners: take(ebpf, "OWNERS")?.try_into()?,
            suspects: KeyedMap::take(ebpf, "SUSPECTS")?,
            services: KeyedMap::take(ebpf, "SERVICES")?,
            denied: KeyedMap::take(ebpf, "DENIED")?,
            backends: KeyedMap::take(ebpf, "BACKENDS")?,
            terminated: KeyedMap::take(ebpf, "TERMINATED")?,
            interfaces: KeyedMap::take(ebpf, "INTERFACES")?,
            config: take(ebpf, "CONFIG")?.try_into()?,
            config_lock: None,
            view,
            written_view,
            gate: GateMap::new(ebpf, &restored.tables)?,
            installed: restored.tables.clone(),
            to_retry: Changes::default(),
            left_out: 0,
            counts: DenialCounts::of(ebpf)?,
            flows: Flows::of(ebpf)?,
            flows_go_on: true,
            lifts: Vec::new(),
            sightings: Sightings::default(),
            restored,
        };
        writer.write_view()?;
        for target in std::mem::take(&mut writer.restored.unreadable) {
            writer.write(&Op::RemoveDenial(target)).context("cannot write DENIED")?;
        }
        Ok(writer)
    }

    /// The tables that an earlier process left: SUSPECTS, SERVICES, DENIED, BACKENDS and TERMINATED.
    #[must_use]
    pub const fn restored(&self) -> &Tables {
        &self.restored.tables
    }

    /// The time until which the programs deny, nanoseconds of `CLOCK_BOOTTIME`; at first the earlier process's lease.
    #[must_use]
    pub const fn lease_deadline_ns(&self) -> u64 {
        self.written_view.lease_deadline_ns
    }

    /// Writes the difference between what is installed and what is desired; false if there is none.
    pub fn install(&mut self, desired: &Tables) -> Result<bool> {
        let changes = Changes::between(&self.installed, desired);
        self.install_changes(desired, changes)
    }

    /// The same if only these keys may differ, which costs nothing that grows with the tables.
    pub fn install_changes(&mut self, desired: &Tables, mut changes: Changes) -> Result<bool> {
        changes.extend(std::mem::take(&mut self.to_retry));
        let ops = plan::tables_at(&self.installed, desired, &changes);
        if ops.is_empty() {
            return Ok(false);
        }
        // Before the first entry, and after the last: a packet that the gate ends lifts no denial.
        self.gate.open_for(&ops)?;
        self.reserve_numbers(&ops)?;
        self.settle_counts(&ops)?;
        self.left_out = 0;
        if ops.iter().any(Op::is_of_backends) {
            self.announce_flows(!desired.backends.is_empty())?;
        }
        for op in &ops {
            self.write_or_leave_out(op).with_context(|| format!("cannot write {op:?}"))?;
        }
        if ops.iter().any(|op| matches!(op, Op::RemoveBackends(_))) {
            // The programs may have redirected flows there since the last sweep.
            self.flows_go_on = true;
            self.flows.sweep_soon();
        }
        self.written_view.suspects = count(desired.suspects.len());
        self.written_view.terminated = count(desired.terminated.len());
        self.written_view.flows = self.flow_count();
        self.write_view()?;
        if self.written_view.flows == 0 {
            self.gate.forget_flows();
        }
        self.gate.close();
        Ok(true)
    }

    /// Removes flows that are over. Costs nothing if none can go on or begin.
    pub fn sweep_flows(&mut self) -> Result<()> {
        if self.written_view.flows == 0 && !self.flows_go_on {
            return Ok(());
        }
        self.flows_go_on = self.flows.sweep()?;
        if self.written_view.flows != self.flow_count() {
            self.written_view.flows = self.flow_count();
            self.write_view()?;
        }
        if self.written_view.flows == 0 && self.gate.forget_flows() {
            self.gate.close();
        }
        Ok(())
    }

    /// Whether redirected flows go on: then the view has to stay fresh for them.
    #[must_use]
    pub const fn has_redirected_flows(&self) -> bool {
        self.written_view.flows != 0 && self.flows_go_on
    }

    /// How many redirected connections were in FLOWS at the last sweep.
    #[must_use]
    pub const fn redirected(&self) -> usize {
        self.flows.proven()
    }

    /// Makes the programs look for answers to translate back, before the first flow may open.
    fn announce_flows(&mut self, may_open: bool) -> Result<()> {
        if !may_open || self.written_view.flows != 0 {
            return Ok(());
        }
        self.written_view.flows = 1;
        self.write_view()
    }

    fn flow_count(&self) -> u32 {
        u32::from(self.flows_go_on) + count(self.installed.backends.len())
    }

    /// Renews the lease of everything installed until the deadline, nanoseconds of `CLOCK_BOOTTIME`.
    pub fn renew_lease(&mut self, deadline_ns: u64) -> Result<()> {
        self.written_view.lease_deadline_ns = deadline_ns;
        self.write_view()
    }

    fn write(&mut self, op: &Op) -> Result<(), MapError> {
        match op {
            Op::RemoveDenial(target) => {
                absent(self.denied.remove(target))?;
                self.end_denial(target)
            }
            Op::RemoveSuspect(ip) => absent(self.suspects.remove(ip)),
            Op::RemoveService(vip) => absent(self.services.remove(vip)),
            Op::RemoveOwner(ip) => absent(self.owners.remove(ip)),
            Op::PutDenial(target, denial) => {
                self.counts.begin(target)?;
                self.denied.insert(*target, *denial, 0)
            }
            Op::PutService(vip, number) => self.services.insert(*vip, *number, 0),
            Op::PutSuspect(ip, suspect) => self.suspects.insert(*ip, *suspect, 0),
            Op::PutOwner(ip, owner) => self.owners.insert(ip, owner, 0),
            Op::RemoveBackends(target) => absent(self.backends.remove(target)),
            Op::PutBackends(target, backends) => self.backends.insert(*target, **backends, 0),
            Op::RemoveTerminated(ip) => {
                self.remove_terminated(*ip)?;
                self.end_terminated(&DenialKey::of_ip(*ip))
            }
            Op::PutTerminated(ip, orphan_ip) => {
                self.counts.begin(&DenialKey::of_ip(*ip))?;
                self.put_terminated(*ip, *orphan_ip)
            }
        }
    }
}

/// Flag of a map update: only a key that is not there.
const BPF_NOEXIST: u64 = 1;

fn count(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}

//! The one file that writes maps.

use crate::datapath::boot_ns;
use crate::plan::{self, Op};
use crate::state::Tables;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuHashMap, PerCpuValues};
use epguard_common::{
    ABI_VERSION, Addr, Config, Count, Counter, Denial, Mode, Outcome, Owner, Reason, ReasonModes, Role, Slot,
    Suspect, Target, Terminated, View, Vip,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every map of the datapath, as pinned.
pub const NAMES: [&str; 11] = [
    "OWNERS",
    "SUSPECTS",
    "SERVICES",
    "DENIED",
    "TERMINATED",
    "INTERFACES",
    "SOCKETS",
    "CONFIG",
    "VIEW",
    "COUNTERS",
    "EVENTS",
];

/// Where the maps of this version are pinned: `<pin-dir>/v1`.
#[must_use]
pub fn directory(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{ABI_VERSION}"))
}

/// A pinned map, for whoever only reads.
pub fn open(pin_dir: &Path, name: &str) -> Result<MapData> {
    let path = directory(pin_dir).join(name);
    MapData::from_pin(&path).with_context(|| {
        format!(
            "no map at {}: is `epguard agent` running with this --pin-dir?",
            path.display()
        )
    })
}

/// Switches the running datapath.
pub fn set_mode(pin_dir: &Path, mode: Mode) -> Result<()> {
    let mut array: Array<_, Config> = Array::try_from(Map::Array(open(pin_dir, "CONFIG")?))?;
    let config = array.get(&0, 0).context("cannot read CONFIG")?;
    array
        .set(0, Config { mode, ..config }, 0)
        .context("cannot write CONFIG")
}

/// Writes what the state says, and vouches for it.
pub struct Writer {
    owners: HashMap<MapData, Addr, Owner>,
    suspects: HashMap<MapData, Addr, Suspect>,
    services: HashMap<MapData, Vip, Slot>,
    denied: HashMap<MapData, Target, Denial>,
    terminated: HashMap<MapData, Addr, Terminated>,
    interfaces: HashMap<MapData, u32, Role>,
    config: Array<MapData, Config>,
    view: Array<MapData, View>,
    vouched: View,
    installed: Tables,
}

impl Writer {
    /// Takes the maps over from a loaded object. Everything is off until [`Writer::configure`].
    pub fn new(ebpf: &mut Ebpf, netns_cookie: u64) -> Result<Self> {
        let mut counters: PerCpuHashMap<_, Counter, Count> = take(ebpf, "COUNTERS")?.try_into()?;
        let cpus =
            aya::util::nr_cpus().map_err(|(file, error)| anyhow::anyhow!("cannot read {file}: {error}"))?;
        for (reason, outcome) in Reason::ALL.into_iter().flat_map(|r| Outcome::ALL.map(|o| (r, o))) {
            let zero = PerCpuValues::try_from(vec![Count::default(); cpus])?;
            counters
                .insert(Counter { reason, outcome }, zero, 0)
                .context("cannot write COUNTERS")?;
        }
        Ok(Self {
            owners: take(ebpf, "OWNERS")?.try_into()?,
            suspects: take(ebpf, "SUSPECTS")?.try_into()?,
            services: take(ebpf, "SERVICES")?.try_into()?,
            denied: take(ebpf, "DENIED")?.try_into()?,
            terminated: take(ebpf, "TERMINATED")?.try_into()?,
            interfaces: take(ebpf, "INTERFACES")?.try_into()?,
            config: take(ebpf, "CONFIG")?.try_into()?,
            view: take(ebpf, "VIEW")?.try_into()?,
            vouched: View {
                netns_cookie,
                ..View::default()
            },
            installed: Tables::default(),
        })
    }

    /// Sets the operator's modes.
    pub fn configure(&mut self, mode: Mode, retired: Mode, debug: bool) -> Result<()> {
        let reasons = ReasonModes {
            dead_backend: Mode::Enforce,
            reused: Mode::Enforce,
            retired_backend: retired,
            terminated: Mode::Enforce,
        };
        let config = Config {
            mode,
            reasons,
            debug: debug.into(),
            ..Config::default()
        };
        self.config.set(0, config, 0).context("cannot write CONFIG")
    }

    /// What CONFIG says now; `epguard mode` may have changed it.
    pub fn mode(&self) -> Result<Mode> {
        Ok(self.config.get(&0, 0).context("cannot read CONFIG")?.mode)
    }

    /// Writes the difference between what is installed and what is desired; false if there is none.
    pub fn install(&mut self, desired: &Tables) -> Result<bool> {
        if self.installed == *desired {
            return Ok(false);
        }
        for op in plan::tables(&self.installed, desired) {
            self.write(op).with_context(|| format!("cannot write {op:?}"))?;
        }
        self.installed.clone_from(desired);
        self.vouched.suspects = u32::try_from(desired.suspects.len()).unwrap_or(u32::MAX);
        self.vouched.terminated = u32::try_from(desired.terminated.len()).unwrap_or(u32::MAX);
        self.vouched.vips = u32::try_from(desired.services.len()).unwrap_or(u32::MAX);
        self.vouch()?;
        Ok(true)
    }

    /// Writes owners that changed. They decide nothing, so one that has no room is only left out.
    pub fn install_owners(&mut self, owners: &BTreeMap<Addr, Owner>, changed: &BTreeSet<Addr>) -> usize {
        plan::owners(owners, changed)
            .filter(|op| self.write(*op).is_err())
            .count()
    }

    /// Says what an interface is to the node; `None` for one that is gone. What leads to an unknown one passes.
    pub fn set_role(&mut self, ifindex: u32, role: Option<Role>) {
        let written = match role {
            Some(role) => self.interfaces.insert(ifindex, role, 0),
            None => absent(self.interfaces.remove(&ifindex)),
        };
        if let Err(error) = written {
            tracing::warn!(ifindex, %error, "cannot write INTERFACES; what leads there is not denied as terminated");
        }
    }

    /// Vouches for everything installed until the deadline, nanoseconds of `CLOCK_BOOTTIME`.
    pub fn renew_lease(&mut self, deadline_ns: u64) -> Result<()> {
        self.vouched.lease_deadline_ns = deadline_ns;
        self.vouch()
    }

    fn vouch(&mut self) -> Result<()> {
        self.view.set(0, self.vouched, 0).context("cannot write VIEW")
    }

    fn write(&mut self, op: Op) -> Result<(), MapError> {
        match op {
            Op::RemoveDenial(target) => absent(self.denied.remove(&target)),
            Op::RemoveSuspect(ip) => absent(self.suspects.remove(&ip)),
            Op::RemoveService(vip) => absent(self.services.remove(&vip)),
            Op::RemoveOwner(ip) => absent(self.owners.remove(&ip)),
            Op::PutDenial(target, denial) => self.denied.insert(target, denial, 0),
            Op::PutService(vip, slot) => self.services.insert(vip, slot, 0),
            Op::PutSuspect(ip, suspect) => self.suspects.insert(ip, suspect, 0),
            Op::PutOwner(ip, owner) => self.owners.insert(ip, owner, 0),
            Op::RemoveTerminated(ip) => absent(self.terminated.remove(&ip)),
            Op::PutTerminated(ip, vacant) => {
                let terminated = Terminated {
                    dead_uid: vacant.dead,
                    mode: vacant.mode,
                    proven_ns: boot_ns(),
                    ..Terminated::default()
                };
                self.terminated.insert(ip, terminated, NO_EXIST)
            }
        }
    }
}

/// `BPF_NOEXIST`: the programs write into these entries.
const NO_EXIST: u64 = 1;

/// What somebody else removed already is removed.
fn absent(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name)
        .with_context(|| format!("the eBPF object has no map {name}: rebuild with `cargo xtask build`"))
}

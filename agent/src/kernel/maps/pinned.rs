//! The maps of the datapath by name: pinned, or of a loaded object.

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Map, MapData, MapError};
use epguard_common::ABI_VERSION;
use std::path::{Path, PathBuf};

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
pub(super) fn take_map<T: TryFrom<Map, Error = MapError>>(
    ebpf: &mut Ebpf,
    name: &str,
) -> Result<T> {
    let map = ebpf.take_map(name);
    let map = map.with_context(|| {
        format!("the eBPF object has no map {name}: rebuild with `cargo xtask build`")
    })?;
    T::try_from(map).with_context(|| format!("{name} has another layout"))
}

//! Takes over what an agent of map layout v1 left pinned, the layout of the releases before this one.
//!
//! Both layouts number Services from the same range, so the numbers are kept: a number that a packet carries means the
//! same Service to the programs of both, whichever of them wrote it and whichever reads it. The denials, the modes and
//! the lease are copied, and the links of interfaces move to this layout's directory. From then on it is a takeover
//! like any other: this process puts its programs into these links, and the lease is the earlier agent's until the
//! first own view. [`Datapath::remove_leftovers`](crate::kernel::datapath::Datapath::remove_leftovers) removes the rest.
//!
//! To be deleted with its two calls, in `run` and in `agent`, once no node runs v1 any more.

mod layout;

use super::Writer;
use anyhow::{Context as _, Result};
use aya::Pod;
use aya::maps::{Array, HashMap, Map, MapData};
use epguard_common::{Addr, CARRIER_ALL, DenialKey, Mode, Reason, ReasonModes, Terminated, Vip};
use epguard_core::state::Tables;
use layout::{RawConfig, RawDenial, RawSlot, RawSuspect, RawTerminated, RawView};
use layout::{denial, lifted_ns, nanoseconds, number, orphan_ip, slot, suspect};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// TERMINATED of v1: its programs write lifts there until ours have taken their places.
pub(super) type Lifting = HashMap<MapData, Addr, RawTerminated>;

/// How many reasons to deny v1 knew, the first ones.
const REASONS: usize = 4;

/// The contents of v1's maps.
struct Left {
    lease_deadline_ns: u64,
    config: RawConfig,
    tables: Tables,
    lifting: Lifting,
}

impl Writer {
    /// Moves v1's links here, and writes its denials, modes and lease into the maps of this layout. To be called before
    /// any hook is attached, and with v1's agent gone.
    ///
    /// Errors: a link cannot be moved, or a map of this layout not be written. Maps of v1 that cannot be read are left
    /// out with a warning: an earlier removal may have been cut short.
    pub fn take_over_v1(&mut self, pin_dir: &Path) -> Result<()> {
        let v1 = pin_dir.join("v1");
        if !v1.exists() {
            return Ok(());
        }
        move_links(&v1.join("links"), &super::directory(pin_dir).join("links"))?;
        match Left::read(&v1) {
            // Otherwise an agent of this layout took over before, and ended before it could remove v1.
            Ok(left) if left.lease_deadline_ns > self.lease_deadline_ns() => self.adopt_v1(left),
            Ok(left) => {
                self.sightings.v1 = Some(left.lifting);
                Ok(())
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "denials of the earlier version are proven anew");
                Ok(())
            }
        }
    }

    fn adopt_v1(&mut self, left: Left) -> Result<()> {
        self.adopt_modes(&left.config)?;
        self.install(&left.tables)?;
        // v1 used every bit. The first survey of the neighbours takes back those that a neighbour uses.
        self.permit(CARRIER_ALL, false)?;
        self.renew_lease(left.lease_deadline_ns)?;
        tracing::info!(denials = left.tables.denied.len(), "took over from map layout v1");
        self.restored.tables = left.tables;
        self.sightings.v1 = Some(left.lifting);
        Ok(())
    }

    /// Copies the lifts that v1's programs have written since. To be called when no program of v1 is at an interface
    /// any more.
    ///
    /// Errors: TERMINATED cannot be read or written.
    pub fn end_v1(&mut self) -> Result<()> {
        let Some(v1) = self.sightings.v1.take() else {
            return Ok(());
        };
        for (ip, raw) in entries(&v1)? {
            let (lifted, Ok(entry)) = (lifted_ns(&raw), self.terminated.get(&ip)) else {
                continue;
            };
            if lifted != 0 && entry.lifted_ns == 0 {
                let entry = Terminated {
                    lifted_ns: lifted,
                    ..entry
                };
                self.terminated
                    .insert(ip, entry, 0)
                    .context("cannot write TERMINATED")?;
            }
        }
        Ok(())
    }

    /// Sets the modes of v1, and observes the reasons that v1 only observed because they were wrong.
    fn adopt_modes(&mut self, config: &RawConfig) -> Result<()> {
        let mode = |at: usize| Mode::from_raw(number(config, 4 * at).unwrap_or_default());
        let modes = |at: usize| {
            ReasonModes::of_each(|reason| match reason as usize {
                number @ 1..=REASONS => mode(at + number - 1),
                _ => reason.terms().default,
            })
        };
        let (mut in_force, mut configured) = (modes(1), modes(5));
        self.configure(mode(0), configured, false)?;
        for reason in Reason::ALL {
            if in_force.of(reason) < configured.of(reason) {
                self.demote(reason)?;
            }
        }
        Ok(())
    }
}

impl Left {
    fn read(v1: &Path) -> Result<Self> {
        let view: RawView = first(v1, "VIEW")?;
        let lifting = open(v1, "TERMINATED")?;
        Ok(Self {
            lease_deadline_ns: nanoseconds(&view, 0).unwrap_or_default(),
            config: first(v1, "CONFIG")?,
            tables: tables(v1, &lifting)?,
            lifting,
        })
    }
}

/// The denials of v1, without its redirects: those connections are rejected until the first own view.
fn tables(v1: &Path, terminated: &Lifting) -> Result<Tables> {
    let suspects = entries::<Addr, RawSuspect>(&open(v1, "SUSPECTS")?)?.into_iter();
    let services = entries::<Vip, RawSlot>(&open(v1, "SERVICES")?)?.into_iter();
    let denied = entries::<DenialKey, RawDenial>(&open(v1, "DENIED")?)?.into_iter();
    let terminated = entries(terminated)?.into_iter();
    Ok(Tables {
        suspects: suspects
            .filter_map(|(ip, raw)| Some((ip, suspect(&raw)?)))
            .collect(),
        services: services.map(|(vip, raw)| (vip, slot(raw))).collect(),
        denied: denied
            .filter_map(|(target, raw)| Some((target, denial(&raw)?)))
            .collect(),
        terminated: terminated
            .filter_map(|(ip, raw)| Some((ip, orphan_ip(&raw)?)))
            .collect(),
        ..Tables::default()
    })
}

/// Moves the links of interfaces: they keep their place in the chain, and no packet passes without a program. Links of
/// cgroups stay: ours are on other cgroups.
fn move_links(from: &Path, to: &Path) -> Result<()> {
    let links = match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        links => links.with_context(|| format!("cannot list {}", from.display()))?,
    };
    for link in links {
        let name = link
            .with_context(|| format!("cannot list {}", from.display()))?
            .file_name();
        let to = to.join(&name);
        if !name.as_encoded_bytes().starts_with(b"cgroup-") && !to.exists() {
            fs::rename(from.join(&name), &to)
                .with_context(|| format!("cannot move a link to {}", to.display()))?;
        }
    }
    Ok(())
}

/// The one element of an array.
fn first<V: Pod>(v1: &Path, name: &str) -> Result<V> {
    let map = Map::Array(pinned(v1, name)?);
    let map: Array<MapData, V> = map
        .try_into()
        .with_context(|| format!("v1's {name} has another layout"))?;
    map.get(&0, 0).with_context(|| format!("cannot read v1's {name}"))
}

fn open<K: Pod, V: Pod>(v1: &Path, name: &str) -> Result<HashMap<MapData, K, V>> {
    let map = Map::HashMap(pinned(v1, name)?);
    map.try_into()
        .with_context(|| format!("v1's {name} has another layout"))
}

fn pinned(v1: &Path, name: &str) -> Result<MapData> {
    MapData::from_pin(v1.join(name)).with_context(|| format!("cannot open v1's {name}"))
}

fn entries<K: Pod + Ord, V: Pod>(map: &HashMap<MapData, K, V>) -> Result<BTreeMap<K, V>> {
    map.iter()
        .collect::<Result<_, _>>()
        .context("cannot read a map of v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_interfaces_move_and_no_existing_link_is_replaced() {
        let dir = std::env::temp_dir().join(format!("epguard-v1-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        for name in ["7-from", "7-to", "cgroup-epguard_connect4"] {
            fs::write(from.join(name), "v1").unwrap();
        }
        fs::write(to.join("7-to"), "own").unwrap();
        move_links(&from, &to).unwrap();
        move_links(&dir.join("missing"), &to).unwrap();
        let read = |path: &Path| fs::read_to_string(path).ok();
        assert_eq!(read(&to.join("7-from")).as_deref(), Some("v1"));
        assert_eq!(read(&to.join("7-to")).as_deref(), Some("own"));
        assert!(!from.join("7-from").exists() && from.join("cgroup-epguard_connect4").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}

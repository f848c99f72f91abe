//! Restores what an earlier process left in the maps.

use super::keyed::{loaded, of_object};
use super::terminated;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use epguard_common::{Addr, DenialKey, Owner, Rate, RawDenial, Suspect, Terminated};
use epguard_core::state::Tables;
use std::collections::{BTreeMap, BTreeSet};

/// Contents of the tables, and OWNERS.
#[derive(Debug, Default)]
pub(super) struct Restored {
    pub tables: Tables,
    pub owners: BTreeMap<Addr, Owner>,
    /// Those that are the same pods now, and are still to be written.
    pub kept_owners: BTreeSet<Addr>,
    /// Denials that no epguard wrote; the programs ignore them.
    pub unreadable: BTreeSet<DenialKey>,
}

impl Restored {
    /// Reads the maps of a loaded object.
    pub fn read(ebpf: &Ebpf) -> Result<Self> {
        let mut restored = Self::default();
        for (target, raw) in loaded::<DenialKey, RawDenial>(ebpf, "DENIED")? {
            match raw.checked() {
                Some(denial) => drop(restored.tables.denied.insert(target, denial)),
                None => drop(restored.unreadable.insert(target)),
            }
        }
        restored.tables.suspects = loaded::<Addr, Suspect>(ebpf, "SUSPECTS")?
            .into_iter()
            .map(|(ip, suspect)| (ip, without_telemetry(suspect)))
            .collect();
        restored.tables.backends = loaded(ebpf, "BACKENDS")?.into_iter().collect();
        restored.tables.services = loaded(ebpf, "SERVICES")?.into_iter().collect();
        restored.tables.terminated = loaded::<Addr, Terminated>(ebpf, "TERMINATED")?
            .into_iter()
            .map(|(ip, entry)| (ip, terminated::orphan_ip(&entry)))
            .collect();
        restored.owners = owners(ebpf)?;
        Ok(restored)
    }
}

/// Removes the rate of a suspect: the programs write it, the state doesn't.
fn without_telemetry(suspect: Suspect) -> Suspect {
    Suspect { rate: Rate::default(), ..suspect }
}

fn owners(ebpf: &Ebpf) -> Result<BTreeMap<Addr, Owner>> {
    let map: HashMap<&MapData, Addr, Owner> = of_object(ebpf, "OWNERS")?.try_into()?;
    map.iter().collect::<Result<_, _>>().context("cannot read OWNERS")
}

#[cfg(test)]
#[path = "restored_fuzz.rs"]
mod fuzz;

//! What an earlier process left in the maps.

use super::terminated;
use crate::state::Tables;
use anyhow::{Context as _, Result};
use aya::maps::{HashMap, Map, MapData};
use aya::{Ebpf, Pod};
use epguard_common::{
    Action, Addr, Backends, Denial, Mode, Owner, Rate, Reason, Slot, Suspect, Target, Terminated, Uid,
    UidState, Vip,
};
use std::collections::{BTreeMap, BTreeSet};

/// Contents of the tables, and keys of OWNERS.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub tables: Tables,
    pub owners: BTreeSet<Addr>,
    /// Denials that no epguard wrote; the programs take them for none.
    pub unreadable: BTreeSet<Target>,
}

impl Found {
    /// Reads the maps of a loaded object.
    pub fn read(ebpf: &Ebpf) -> Result<Self> {
        let mut found = Self::default();
        for (target, octets) in entries::<Target, RawDenial>(ebpf, "DENIED")? {
            match denial(&octets) {
                Some(denial) => drop(found.tables.denied.insert(target, denial)),
                None => drop(found.unreadable.insert(target)),
            }
        }
        found.tables.suspects = entries::<Addr, Suspect>(ebpf, "SUSPECTS")?
            .into_iter()
            .map(|(ip, suspect)| (ip, without_telemetry(suspect)))
            .collect();
        found.tables.backends = entries::<Target, Backends>(ebpf, "BACKENDS")?;
        found.tables.services = entries::<Vip, Slot>(ebpf, "SERVICES")?;
        found.tables.terminated = entries::<Addr, Terminated>(ebpf, "TERMINATED")?
            .into_iter()
            .map(|(ip, entry)| (ip, terminated::vacant(&entry)))
            .collect();
        found.owners = entries::<Addr, Owner>(ebpf, "OWNERS")?.into_keys().collect();
        Ok(found)
    }
}

/// Enums of unknown numbers must not become Rust values before they are checked.
type RawDenial = [u8; size_of::<Denial>()];

fn denial(octets: &RawDenial) -> Option<Denial> {
    let (uids, rest) = octets.split_at(3 * size_of::<Uid>());
    let (uids, _) = uids.as_chunks::<16>();
    let [dead_uid, owner_uid, boot_id] =
        [0, 1, 2].map(|at| uids.get(at).map(|octets| Uid { octets: *octets }));
    let (numbers, _) = rest.as_chunks::<4>();
    let number = |at: usize| numbers.get(at).map(|octets| u32::from_ne_bytes(*octets));
    let uid_state = match number(1)? {
        1 => UidState::Retired,
        2 => UidState::Dead,
        _ => return None,
    };
    Some(Denial {
        dead_uid: dead_uid?,
        owner_uid: owner_uid?,
        boot_id: boot_id?,
        reason: Reason::from_raw(number(0)?)?,
        uid_state,
        mode: Mode::from_raw(number(2)?),
        held: number(3)?,
        action: Action::from_raw(number(4)?),
        reserved: 0,
        slot_since_ns: u64::from_ne_bytes(*rest.last_chunk()?),
    })
}

/// The programs write into suspects; the state doesn't.
fn without_telemetry(suspect: Suspect) -> Suspect {
    Suspect {
        rate: Rate::default(),
        ..suspect
    }
}

fn entries<K: Pod + Ord, V: Pod>(ebpf: &Ebpf, name: &str) -> Result<BTreeMap<K, V>> {
    let map: &Map = ebpf
        .map(name)
        .with_context(|| format!("the eBPF object has no map {name}: rebuild with `cargo xtask build`"))?;
    let map: HashMap<&MapData, K, V> = map.try_into()?;
    map.iter()
        .collect::<Result<_, _>>()
        .with_context(|| format!("cannot read {name}"))
}

#[cfg(test)]
#[path = "found_fuzz.rs"]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(reason: u32, state: u32) -> RawDenial {
        let mut octets = [0; size_of::<Denial>()];
        octets[..16].fill(0xaa);
        octets[16..32].fill(0xbb);
        octets[32..48].fill(0xcc);
        octets[48..52].copy_from_slice(&reason.to_ne_bytes());
        octets[52..56].copy_from_slice(&state.to_ne_bytes());
        octets[56..60].copy_from_slice(&(Mode::Observe as u32).to_ne_bytes());
        octets[60..64].copy_from_slice(&1u32.to_ne_bytes());
        octets[64..68].copy_from_slice(&(Action::Reject as u32).to_ne_bytes());
        octets[72..].copy_from_slice(&7u64.to_ne_bytes());
        octets
    }

    #[test]
    fn a_denial_is_read_as_it_was_written() {
        let uid = |octet| Uid { octets: [octet; 16] };
        let written = Denial {
            dead_uid: uid(0xaa),
            owner_uid: uid(0xbb),
            boot_id: uid(0xcc),
            reason: Reason::Reused,
            uid_state: UidState::Dead,
            mode: Mode::Observe,
            held: 1,
            action: Action::Reject,
            reserved: 0,
            slot_since_ns: 7,
        };
        assert_eq!(
            denial(&raw(Reason::Reused as u32, UidState::Dead as u32)),
            Some(written)
        );
    }

    #[test]
    fn numbers_that_no_epguard_wrote_are_no_denial() {
        for (reason, state) in [(77, 2), (2, 77), (2, 0)] {
            assert_eq!(denial(&raw(reason, state)), None, "{reason} {state}");
        }
    }
}

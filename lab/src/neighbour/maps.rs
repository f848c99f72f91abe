//! Pinned maps, whose keys and values are octets and words, and those of the neighbours, with the
//! layouts of `lab/neighbour/src/maps.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData, PerCpuArray};
use epguard_common::Addr;

use super::Neighbour;

/// Address, IPv4 as v4-mapped, port in network order, and padding.
pub(crate) type EndpointKey = [u8; 20];

/// The key of an endpoint.
pub(crate) fn endpoint(of: SocketAddr) -> EndpointKey {
    let mut octets = [0; 20];
    octets[..16].copy_from_slice(&Addr::from(of.ip()).octets);
    octets[16..18].copy_from_slice(&of.port().to_be_bytes());
    octets
}

pub(super) fn data(pins: &Path, name: &str) -> Result<MapData> {
    let path = pins.join(name);
    MapData::from_pin(&path).with_context(|| format!("cannot open {}", path.display()))
}

/// Opens a hash map.
pub(crate) fn open<K: Pod, V: Pod>(pins: &Path, name: &str) -> Result<HashMap<MapData, K, V>> {
    Ok(Map::HashMap(data(pins, name)?).try_into()?)
}

/// Writes entries.
pub(crate) fn insert<K: Pod, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    wanted: &BTreeMap<K, V>,
) -> Result<()> {
    wanted
        .iter()
        .try_for_each(|(key, value)| Ok(map.insert(key, value, 0)?))
}

/// Removes all other entries.
pub(crate) fn retain<K: Pod + Ord, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    wanted: &BTreeMap<K, V>,
) -> Result<()> {
    let keys: Vec<K> = map.keys().collect::<Result<_, _>>()?;
    keys.iter()
        .filter(|key| !wanted.contains_key(key))
        .try_for_each(|key| Ok(map.remove(key)?))
}

/// Makes these the only entries.
pub(crate) fn replace<K: Pod + Ord, V: Pod>(
    pins: &Path,
    name: &str,
    wanted: &BTreeMap<K, V>,
) -> Result<()> {
    let mut map = open(pins, name)?;
    retain(&mut map, wanted)?;
    insert(&mut map, wanted)
}

/// A flow that the policy forbids: TCP and UDP packets from an address to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForbiddenFlow {
    /// The sender.
    pub from: IpAddr,
    /// The destination in the packet at the hook of the policy.
    pub to: SocketAddr,
}

/// Packets that the neighbour's programs have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Let through by the policy unjudged, because a field marks them as a proxy's.
    pub skipped: u64,
    /// Dropped by the policy.
    pub forbidden: u64,
    /// Judged by the policy and let through.
    pub allowed: u64,
    /// Overwritten.
    pub scrambled: u64,
    /// The same before and behind epguard's program.
    pub same: u64,
    /// Let through unjudged, as replies of tracked connections.
    pub replies: u64,
    /// Dropped at the tunnel, as they entered without its key.
    pub keyless: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            skipped,
            forbidden,
            allowed,
            scrambled,
            same,
            replies,
            keyless,
        } = self;
        write!(
            f,
            "skipped {skipped}, forbidden {forbidden}, allowed {allowed}, scrambled {scrambled}, same {same}, \
             replies {replies}, keyless {keyless}"
        )
    }
}

/// The fields of `struct __sk_buff` in the order of `lab/neighbour/src/snapshot.rs`, and the
/// octets.
const FIELDS: &str = "len pkt_type mark queue_mapping protocol vlan_present vlan_tci vlan_proto priority ingress_ifindex ifindex \
    tc_index cb[0] cb[1] cb[2] cb[3] cb[4] hash tc_classid napi_id wire_len gso_segs gso_size tstamp hwtstamp octets";

impl ForbiddenFlow {
    /// The key of FORBIDDEN.
    fn key(&self) -> [u8; 36] {
        let mut key = [0; 36];
        key[..16].copy_from_slice(&Addr::from(self.from).octets);
        key[16..].copy_from_slice(&endpoint(self.to));
        key
    }
}

impl Neighbour {
    /// Makes the policy forbid these flows and no others.
    pub fn forbid(&self, flows: &[ForbiddenFlow]) -> Result<()> {
        let wanted: BTreeMap<[u8; 36], u32> = flows.iter().map(|flow| (flow.key(), 1)).collect();
        replace(&self.pins, "FORBIDDEN", &wanted)
    }

    /// Writes the node's interface of each endpoint, for
    /// [`NeighbourKind::HostRouting`](super::NeighbourKind::HostRouting).
    pub fn route(&self, endpoints: &BTreeMap<SocketAddr, u32>) -> Result<()> {
        let wanted = endpoints
            .iter()
            .map(|(to, ifindex)| (endpoint(*to), *ifindex));
        replace(&self.pins, "PEERS", &wanted.collect())
    }

    /// Packets that its programs have seen, since the beginning. All zero before the first start.
    pub fn counts(&self) -> Result<Counts> {
        let [
            skipped,
            forbidden,
            allowed,
            scrambled,
            same,
            replies,
            keyless,
        ] = sums(&self.pins, "COUNTS")?;
        Ok(Counts {
            skipped,
            forbidden,
            allowed,
            scrambled,
            same,
            replies,
            keyless,
        })
    }

    /// The fields that epguard's programs have changed in packets that passed, with the number of
    /// these packets. Only of [`NeighbourKind::Recorder`](super::NeighbourKind::Recorder).
    pub fn changed(&self) -> Result<BTreeMap<&'static str, u64>> {
        let changed = FIELDS.split(' ').zip(sums::<26>(&self.pins, "CHANGED")?);
        Ok(changed.filter(|(_, packets)| *packets > 0).collect())
    }
}

/// All zero before the map exists.
fn sums<const N: usize>(pins: &Path, name: &str) -> Result<[u64; N]> {
    let mut sums = [0; N];
    if pins.join(name).exists() {
        let map: PerCpuArray<MapData, u64> = Map::PerCpuArray(data(pins, name)?).try_into()?;
        for (index, sum) in (0..).zip(&mut sums) {
            *sum = map.get(&index, 0)?.iter().sum();
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_its_v4_mapped_address_and_its_port_in_network_order() {
        let key = endpoint("10.244.1.7:8080".parse().unwrap());
        assert_eq!(key[..10], [0; 10]);
        assert_eq!(key[10..], [0xff, 0xff, 10, 244, 1, 7, 0x1f, 0x90, 0, 0]);
    }
}

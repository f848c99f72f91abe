//! The neighbours' maps, with the layouts of `lab/neighbour/src/maps.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use aya::maps::{HashMap, Map, MapData, PerCpuArray, PerCpuHashMap};
use epguard_common::Addr;

/// A flow that the policy forbids: TCP and UDP packets from an address to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The sender.
    pub from: IpAddr,
    /// The destination in the packet at the hook of the policy.
    pub to: SocketAddr,
}

/// Packets by verdict of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Let through unjudged, because a field marks them as a proxy's.
    pub skipped: u64,
    /// Dropped.
    pub forbidden: u64,
    /// Judged and let through.
    pub allowed: u64,
}

impl std::fmt::Display for Verdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            skipped,
            forbidden,
            allowed,
        } = self;
        write!(f, "skipped {skipped}, forbidden {forbidden}, allowed {allowed}")
    }
}

pub(super) fn forbid(map: MapData, flows: &[Flow]) -> Result<()> {
    let mut map: HashMap<MapData, [u8; 36], u32> = Map::HashMap(map).try_into()?;
    let old: Vec<[u8; 36]> = map.keys().collect::<Result<_, _>>()?;
    for key in old {
        map.remove(&key)?;
    }
    for flow in flows {
        let mut key = [0; 36];
        key[..16].copy_from_slice(&Addr::from(flow.from).octets);
        key[16..].copy_from_slice(&endpoint(flow.to));
        map.insert(key, 1, 0)?;
    }
    Ok(())
}

pub(super) fn route(map: MapData, endpoints: &BTreeMap<SocketAddr, u32>) -> Result<()> {
    let mut map: HashMap<MapData, [u8; 20], u32> = Map::HashMap(map).try_into()?;
    let wanted: BTreeMap<[u8; 20], u32> = endpoints
        .iter()
        .map(|(to, ifindex)| (endpoint(*to), *ifindex))
        .collect();
    let old: Vec<[u8; 20]> = map.keys().collect::<Result<_, _>>()?;
    for key in old.iter().filter(|key| !wanted.contains_key(*key)) {
        map.remove(key)?;
    }
    for (key, ifindex) in wanted {
        map.insert(key, ifindex, 0)?;
    }
    Ok(())
}

pub(super) fn verdicts(map: MapData) -> Result<Verdicts> {
    let map: PerCpuArray<MapData, u64> = Map::PerCpuArray(map).try_into()?;
    let sum = |index| -> Result<u64> { Ok(map.get(&index, 0)?.iter().sum()) };
    Ok(Verdicts {
        skipped: sum(0)?,
        forbidden: sum(1)?,
        allowed: sum(2)?,
    })
}

pub(super) fn arrived(map: MapData) -> Result<BTreeMap<u32, u64>> {
    let map: PerCpuHashMap<MapData, u32, u64> = Map::PerCpuHashMap(map).try_into()?;
    let counts = map.iter().map(|entry| {
        let (tc_index, counts) = entry?;
        Ok((tc_index, counts.iter().sum()))
    });
    counts.collect::<Result<_>>().context("cannot read ARRIVED")
}

/// Address and port as in a packet, and padding.
fn endpoint(to: SocketAddr) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&Addr::from(to.ip()).octets);
    key[16..18].copy_from_slice(&to.port().to_be_bytes());
    key
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

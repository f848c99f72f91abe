//! The neighbours' maps, with the layouts of `lab/neighbour/src/maps.rs`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use aya::maps::{Map, MapData, PerCpuArray, PerCpuHashMap};
use epguard_common::Addr;

use super::pinned::{data, endpoint, replace};

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

pub(super) fn forbid(pins: &Path, flows: &[Flow]) -> Result<()> {
    let key = |flow: &Flow| {
        let mut key = [0; 36];
        key[..16].copy_from_slice(&Addr::from(flow.from).octets);
        key[16..].copy_from_slice(&endpoint(flow.to));
        key
    };
    let wanted: BTreeMap<[u8; 36], u32> = flows.iter().map(|flow| (key(flow), 1)).collect();
    replace(pins, "FORBIDDEN", &wanted)
}

pub(super) fn route(pins: &Path, endpoints: &BTreeMap<SocketAddr, u32>) -> Result<()> {
    let wanted = endpoints.iter().map(|(to, ifindex)| (endpoint(*to), *ifindex));
    replace(pins, "PEERS", &wanted.collect())
}

/// All zero before the map exists.
pub(super) fn verdicts(pins: &Path) -> Result<Verdicts> {
    if !pins.join("VERDICTS").exists() {
        return Ok(Verdicts::default());
    }
    let map: PerCpuArray<MapData, u64> = Map::PerCpuArray(data(pins, "VERDICTS")?).try_into()?;
    let sum = |index| -> Result<u64> { Ok(map.get(&index, 0)?.iter().sum()) };
    Ok(Verdicts {
        skipped: sum(0)?,
        forbidden: sum(1)?,
        allowed: sum(2)?,
    })
}

/// Empty before the map exists.
pub(super) fn arrived(pins: &Path) -> Result<BTreeMap<u32, u64>> {
    if !pins.join("ARRIVED").exists() {
        return Ok(BTreeMap::new());
    }
    let map: PerCpuHashMap<MapData, u32, u64> = Map::PerCpuHashMap(data(pins, "ARRIVED")?).try_into()?;
    let counts = map.iter().map(|entry| {
        let (tc_index, counts) = entry?;
        Ok((tc_index, counts.iter().sum()))
    });
    counts.collect::<Result<_>>().context("cannot read ARRIVED")
}

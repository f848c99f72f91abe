//! Pinned maps, whose keys and values are octets and words.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use epguard_common::Addr;

/// Address, IPv4 as v4-mapped, port in network order, and padding.
pub(crate) type Endpoint = [u8; 20];

/// The key of an endpoint.
pub(crate) fn endpoint(of: SocketAddr) -> Endpoint {
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
    wanted.iter().try_for_each(|(key, value)| Ok(map.insert(key, value, 0)?))
}

/// Removes all other entries.
pub(crate) fn retain<K: Pod + Ord, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    wanted: &BTreeMap<K, V>,
) -> Result<()> {
    let keys: Vec<K> = map.keys().collect::<Result<_, _>>()?;
    keys.iter().filter(|key| !wanted.contains_key(key)).try_for_each(|key| Ok(map.remove(key)?))
}

/// Makes these the only entries.
pub(crate) fn replace<K: Pod + Ord, V: Pod>(pins: &Path, name: &str, wanted: &BTreeMap<K, V>) -> Result<()> {
    let mut map = open(pins, name)?;
    retain(&mut map, wanted)?;
    insert(&mut map, wanted)
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

//! The Nodes in whose ranges an IP lies, found without a look at each Node.

use crate::counts::{Groups, ungroup};
use crate::facts::{Cidr, Text};
use epguard_common::Addr;
use std::collections::BTreeMap;

/// The ranges of all Nodes, by their size (the bits that their addresses differ in) and first
/// address. Clusters have a few sizes.
#[derive(Debug, Clone, Default)]
pub struct RangeOwners(BTreeMap<u32, Groups<Addr, Text>>);

impl RangeOwners {
    /// Adds a range of a Node.
    pub fn add(&mut self, range: &Cidr, node: &Text) {
        let of_size = self.0.entry(size(range)).or_default();
        of_size.entry(range.first).or_default().insert(node.clone());
    }

    /// Removes a range of a Node.
    pub fn remove(&mut self, range: &Cidr, node: &Text) {
        if let Some(of_size) = self.0.get_mut(&size(range)) {
            ungroup(of_size, &range.first, node);
        }
    }

    /// The Nodes with a range that contains the address. An IPv6 range may be found for an IPv4
    /// address, which is stored as v4-mapped.
    pub fn of(&self, addr: Addr) -> impl Iterator<Item = &Text> {
        let number = u128::from_be_bytes(addr.octets);
        let owners = self.0.iter().filter_map(move |(size, ranges)| {
            let first = number & !u128::MAX.checked_shr(128 - size).unwrap_or(0);
            ranges.get(&Addr {
                octets: first.to_be_bytes(),
            })
        });
        owners.flatten()
    }
}

fn size(range: &Cidr) -> u32 {
    let differing =
        u128::from_be_bytes(range.first.octets) ^ u128::from_be_bytes(range.last.octets);
    128 - differing.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_nodes_of_all_ranges_around_it_until_they_are_removed() {
        let mut owners = RangeOwners::default();
        let ranges = [
            ("a", "10.244.1.0/24"),
            ("b", "10.244.0.0/16"),
            ("c", "10.244.1.0/24"),
            ("d", "10.244.1.7/32"),
            ("e", "fd00::/64"),
        ];
        let ranges = ranges.map(|(node, range)| (Text::from(node), Cidr::parse(range).unwrap()));
        for (node, range) in &ranges {
            owners.add(range, node);
        }
        let of = |owners: &RangeOwners, last| -> Vec<String> {
            owners
                .of(Addr::v4([10, 244, 1, last]))
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(of(&owners, 7), ["d", "a", "c", "b"]);
        assert_eq!(of(&owners, 8), ["a", "c", "b"]);
        owners.remove(&ranges[0].1, &ranges[0].0);
        assert_eq!(of(&owners, 8), ["c", "b"]);
        assert_eq!(owners.of(Addr::v4([10, 245, 0, 1])).count(), 0);
    }
}

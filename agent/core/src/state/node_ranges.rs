//! Which node has which range of pod IPs (`spec.podCIDRs`).

use crate::facts::{Cidr, Node, Text};
use epguard_common::Addr;

/// The ranges of all nodes, by their first address.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeRanges(Vec<(Addr, Cidr, Text)>);

impl NodeRanges {
    pub(super) fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let ranges = nodes.flat_map(|node| node.pod_cidrs.iter().map(|cidr| (cidr, &node.name)));
        let mut ranges: Vec<_> = ranges
            .map(|(cidr, node)| (cidr.first(), *cidr, node.clone()))
            .collect();
        ranges.sort_by_key(|(first, ..)| *first);
        Self(ranges)
    }

    /// The node of the last range that begins at or below the IP, if that range has the IP.
    pub(super) fn node(&self, ip: Addr) -> Option<&str> {
        let after = self.0.partition_point(|(first, ..)| *first <= ip);
        let (_, cidr, node) = self.0.get(after.checked_sub(1)?)?;
        cidr.contains(ip).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_an_ip_is_the_one_whose_range_has_it() {
        let node = |name: &str, cidrs: [&str; 2]| Node {
            name: name.into(),
            addresses: Vec::new(),
            pod_cidrs: cidrs.into_iter().filter_map(Cidr::parse).collect(),
            boot_id: epguard_common::Uid::NONE,
            virtual_kubelet: false,
            canary: false,
            zone: None,
        };
        let nodes = [
            node("b", ["10.1.1.0/24", "fd00:1:1::/64"]),
            node("a", ["10.1.0.0/24", "fd00:1::/64"]),
        ];
        let ranges = NodeRanges::of(nodes.iter());
        let of = |ip: &str| ranges.node(ip.parse::<std::net::IpAddr>().unwrap().into());
        assert_eq!(of("10.1.0.0"), Some("a"));
        assert_eq!(of("10.1.0.255"), Some("a"));
        assert_eq!(of("10.1.1.7"), Some("b"));
        assert_eq!(of("fd00:1::7"), Some("a"));
        assert_eq!(of("fd00:1:1::7"), Some("b"));
        assert_eq!([of("10.0.255.255"), of("10.1.2.0"), of("fd00:2::1")], [None; 3]);
    }
}

//! Which claims to an IP count for Services and pods of others.
//!
//! Whoever may annotate a pod can write any addresses into Multus' annotation. Such a claim protects packets to the
//! pod's own Services. It counts for others only where the pod can hold the IP.

use super::{Record, World};
use crate::facts::{Cidr, Node};
use epguard_common::Addr;

/// The ranges of all nodes, by their first address.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeRanges(Vec<(Addr, Cidr, String)>);

impl NodeRanges {
    pub(super) fn of<'a>(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let ranges = nodes.flat_map(|node| node.pod_cidrs.iter().map(|cidr| (cidr, &node.name)));
        let mut ranges: Vec<_> = ranges
            .map(|(cidr, node)| (cidr.first(), *cidr, node.clone()))
            .collect();
        ranges.sort_by_key(|(first, ..)| *first);
        Self(ranges)
    }

    /// The node whose range has the IP. None in doubt, where ranges overlap.
    fn node(&self, ip: Addr) -> Option<&str> {
        let after = self.0.partition_point(|(first, ..)| *first <= ip);
        let (_, cidr, node) = self.0.get(after.checked_sub(1)?)?;
        cidr.contains(ip).then_some(node)
    }
}

impl World {
    /// Whether the pod holds an IP that it shows, as far as others are concerned: it publishes the IP in its status; or it
    /// runs, with an IP, and no other node alone hands this one out.
    #[must_use]
    pub fn is_plausible(&self, record: &Record, ip: Addr) -> bool {
        let pod = &record.pod;
        let elsewhere = || {
            let node = self.ranges_of_nodes.node(ip);
            node.is_some() && pod.node.as_deref() != node && self.is_exclusive(ip, node)
        };
        pod.ips.contains(&ip) || pod.node.is_some() && !pod.ips.is_empty() && !elsewhere()
    }

    /// Live pods that hold the IP, or may.
    pub fn plausible_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        let claimants = self.pods.claimants(ip);
        claimants.filter(move |record| record.is_live() && self.is_plausible(record, ip))
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

//! Which node has which range of pod IPs (`spec.podCIDRs`).

use crate::facts::{Cidr, Node, Text};
use epguard_common::Addr;
use std::collections::BTreeMap;

/// The ranges of all nodes, by their first address and the node's name.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct NodeRanges(BTreeMap<Addr, Vec<(Text, Cidr)>>);

impl NodeRanges {
    pub(in crate::state) fn add(&mut self, node: &Node) {
        for cidr in &node.pod_cidrs {
            let ranges = self.0.entry(cidr.first()).or_default();
            ranges.push((node.name.clone(), *cidr));
            ranges.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
    }

    pub(in crate::state) fn remove(&mut self, node: &Node) {
        for cidr in &node.pod_cidrs {
            if let Some(ranges) = self.0.get_mut(&cidr.first()) {
                ranges.retain(|(name, _)| *name != node.name);
                if ranges.is_empty() {
                    self.0.remove(&cidr.first());
                }
            }
        }
    }

    /// The node of the last range that begins at or below the IP, if that range has the IP.
    pub(in crate::state) fn node(&self, ip: Addr) -> Option<&str> {
        let (_, ranges) = self.0.range(..=ip).next_back()?;
        let (node, cidr) = ranges.last()?;
        cidr.contains(ip).then_some(node)
    }

    /// The first and the last IP that [`NodeRanges::node`] may answer otherwise with this range than without it: the
    /// range, and what it hides of one that begins before.
    pub(in crate::state) fn reach(&self, cidr: &Cidr) -> (Addr, Addr) {
        let first = cidr.first();
        let before = self.0.range(..first).next_back();
        let before = before.into_iter().chain(self.0.get_key_value(&first));
        let ends = before.flat_map(|(_, ranges)| ranges.iter().map(|(_, cidr)| cidr.last()));
        (first, ends.fold(cidr.last(), Addr::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, cidrs: [&str; 2]) -> Node {
        Node {
            name: name.into(),
            addresses: Vec::new(),
            pod_cidrs: cidrs.into_iter().filter_map(Cidr::parse).collect(),
            boot_id: epguard_common::Uid::NONE,
            virtual_kubelet: false,
            canary: false,
            zone: None,
        }
    }

    fn addr(ip: &str) -> Addr {
        ip.parse::<std::net::IpAddr>().unwrap().into()
    }

    fn ranges(nodes: &[Node]) -> NodeRanges {
        let mut ranges = NodeRanges::default();
        for node in nodes {
            ranges.add(node);
        }
        ranges
    }

    #[test]
    fn the_node_of_an_ip_is_the_one_whose_range_has_it() {
        let nodes = [
            node("b", ["10.1.1.0/24", "fd00:1:1::/64"]),
            node("a", ["10.1.0.0/24", "fd00:1::/64"]),
        ];
        let mut ranges = ranges(&nodes);
        let of = |ranges: &NodeRanges, ip: &str| ranges.node(addr(ip)).map(str::to_owned);
        for (ip, node) in [
            ("10.1.0.0", "a"),
            ("10.1.0.255", "a"),
            ("10.1.1.7", "b"),
            ("fd00:1::7", "a"),
            ("fd00:1:1::7", "b"),
        ] {
            assert_eq!(of(&ranges, ip).as_deref(), Some(node));
        }
        assert_eq!(
            ["10.0.255.255", "10.1.2.0", "fd00:2::1"].map(|ip| of(&ranges, ip)),
            [None, None, None]
        );
        ranges.remove(&nodes[1]);
        assert_eq!(of(&ranges, "10.1.0.255"), None);
        assert_eq!(of(&ranges, "10.1.1.7").as_deref(), Some("b"));
    }

    #[test]
    fn a_range_inside_of_another_reaches_to_the_end_of_the_other() {
        let [all, one] = ["10.1.0.0/16", "10.1.1.0/24"].map(|cidr| node(cidr, [cidr, "banana"]));
        let ranges = ranges(&[all, one.clone()]);
        assert_eq!(ranges.node(addr("10.1.2.1")), None);
        let reach = ranges.reach(&one.pod_cidrs[0]);
        assert_eq!(reach, (addr("10.1.1.0"), addr("10.1.255.255")));
    }
}

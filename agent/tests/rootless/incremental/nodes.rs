//! The nodes.

use super::step::NodeStep;
use super::world::{node, uid};
use epguard_core::facts::{Cidr, Node};

pub fn node_name(number: usize) -> &'static str {
    ["node-a", "node-b", "node-c"][number]
}

/// The node that a pod is bound to: one that is there, or one that comes later.
pub fn node_of(pod: usize) -> usize {
    [1, 0, 0, 1, 0, 2, 1, 0][pod % 8]
}

pub fn plain_node(number: usize, range: u8) -> Node {
    let plain = node(node_name(number), range);
    let six = Cidr::parse(&format!("fd00:{range}::/64"));
    Node { pod_cidrs: plain.pod_cidrs.iter().copied().chain(six).collect(), ..plain }
}

pub fn changed_node(step: &NodeStep) -> Node {
    let mut node = plain_node(step.number, step.range);
    node.addresses.extend(&step.more_addresses);
    if !step.has_ranges {
        node.pod_cidrs.clear();
    }
    if step.rebooted {
        node.boot_id = uid("another boot");
    }
    node.virtual_kubelet = step.virtual_kubelet;
    node
}

//! The two nodes.

use crate::step::NodeStep;
use crate::world::{node, uid};
use epguard_core::facts::{Cidr, Node};

pub fn node_name(number: usize) -> &'static str {
    ["node-a", "node-b"][number]
}

pub fn plain_node(number: usize) -> Node {
    let range = u8::try_from(number + 1).expect("two nodes");
    let plain = node(node_name(number), range);
    let six = Cidr::parse(&format!("fd00:{range}::/64"));
    Node {
        pod_cidrs: plain.pod_cidrs.iter().copied().chain(six).collect(),
        ..plain
    }
}

pub fn changed_node(step: &NodeStep) -> Node {
    let mut node = plain_node(step.number);
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

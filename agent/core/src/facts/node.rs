//! Nodes: addresses that are never judged, and the ranges that one node alone uses.

use super::cidr::Cidr;
use super::json::{OrDefault, RawIp, RawText};
use super::meta::{Ignored, Unreadable};
use super::object::{Object, RawObject};
use super::text::{Text, shared};
use epguard_common::{Addr, Uid};
use serde::Deserialize;
use std::time::Duration;

/// In a cluster of more Nodes, an agent watches that of its own node alone and lists the others
/// from time to time: a Node changes every few minutes, and each change would go to each agent.
pub const WATCHED_NODES: usize = 500;

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node's name.
    pub name: Text,
    /// Identity of the object; a later Node of the same name has another UID. All zero if it has
    /// none.
    pub uid: Uid,
    /// All addresses of `status.addresses` that are IPs.
    pub addresses: Vec<Addr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<Cidr>,
    /// `status.nodeInfo.bootID`: another one means that every binding of the node is void.
    pub boot_id: Uid,
    /// A virtual kubelet: its pods' statuses are not a kubelet's.
    pub virtual_kubelet: bool,
    /// Label `epguard.io/canary`: `canary-mode` of the mode policy applies to the node.
    pub canary: bool,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Text>,
}

/// The API server has shown that a Node is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// The node's name.
    pub name: Text,
    /// Identity of the object. All zero: there is none.
    pub uid: Uid,
    /// When that was asked, of `CLOCK_BOOTTIME`.
    pub at: Duration,
}

impl Object for Node {
    const KIND: &'static str = "Node";
    const PATH: &'static str = "/api/v1/nodes";
    const NAMESPACED: bool = false;

    type Raw<'a> = RawNode<'a>;

    fn from_named(raw: RawNode<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let labels = &raw.metadata.labels;
        Ok(Self {
            name: shared(&raw.metadata.name),
            uid: raw.metadata.uid().unwrap_or_default(),
            addresses: raw
                .status
                .addresses
                .iter()
                .filter_map(RawIp::addr)
                .collect(),
            pod_cidrs: raw.spec.pod_cidrs(),
            boot_id: Uid::parse(&raw.status.node_info.boot_id).unwrap_or_default(),
            virtual_kubelet: raw.is_virtual_kubelet(),
            canary: labels
                .get("epguard.io/canary")
                .is_some_and(|value| &**value == "true"),
            zone: labels
                .get("topology.kubernetes.io/zone")
                .map(|zone| shared(zone)),
        })
    }
}

/// What is read of its JSON.
type RawNode<'a> = RawObject<'a, NodeSpec<'a>, NodeStatus<'a>>;

impl RawNode<'_> {
    fn is_virtual_kubelet(&self) -> bool {
        let label = self.metadata.labels.get("type");
        let mut taints = self.spec.taints.iter();
        label.is_some_and(|node_type| &**node_type == "virtual-kubelet")
            || taints.any(|taint| taint.key.starts_with("virtual-kubelet.io/"))
    }
}

impl NodeSpec<'_> {
    /// All its ranges; `podCIDR` repeats one of `podCIDRs`.
    fn pod_cidrs(&self) -> Vec<Cidr> {
        let texts = self.pod_cidrs.iter().chain([&self.pod_cidr]);
        let mut cidrs: Vec<Cidr> = texts.filter_map(|text| Cidr::parse(text)).collect();
        cidrs.dedup();
        cidrs
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct NodeSpec<'a> {
    #[serde(rename = "podCIDR", borrow)]
    pod_cidr: RawText<'a>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: OrDefault<Vec<RawText<'a>>>,
    taints: OrDefault<Vec<Taint<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Taint<'a> {
    #[serde(borrow)]
    key: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus<'a> {
    #[serde(borrow)]
    addresses: OrDefault<Vec<RawIp<'a>>>,
    node_info: NodeInfo<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeInfo<'a> {
    #[serde(rename = "bootID", borrow)]
    boot_id: RawText<'a>,
}

//! What may happen in a cluster, drawn from pools so small that IPs, UIDs and VIPs collide all the time.
use super::world::{X, Y, uid};
use epguard_common::{Addr, Mode, Uid, UidState};
use epguard_core::facts::{Sandbox, SlicePort};
use std::net::Ipv6Addr;

/// How many pods there are at most at a time; a UID comes back only by mistake.
pub const PODS: usize = 8;

/// One thing that happens. Numbers choose among what exists.
#[derive(Debug, Clone)]
pub enum Step {
    /// A pod appears, or its object looks all different.
    Pod(PodStep),
    Change(usize, PodChange),
    /// DELETED, with or without a deletionTimestamp.
    Delete(usize, bool),
    Slice(SliceStep),
    DeleteSlice(usize),
    Service(ServiceStep),
    DeleteService(usize),
    Node(NodeStep),
    DeleteNode(usize),
    /// A Namespace is annotated.
    Namespace(&'static str, Mode),
    Local(Vec<Addr>),
    /// The IPs that the node's routes and neighbours lead to.
    Held(Vec<Addr>),
    /// The node does not say any more.
    Unknown,
    /// A packet from the IP is seen.
    Speaks(Addr),
    /// A watch starts over with a list; objects whose bit is set vanished in the gap.
    Relist(Kind, u8),
    /// A list of some pods, or of a Service's slices, beside the watch; objects whose bit is set are gone.
    Part(Kind, usize, u8),
    Wait(u64),
    /// A packet was aimed at a denied endpoint.
    Hit(usize),
    /// Things that no watch shows, then lists of everything in this order.
    Gap(Vec<Step>, Vec<Step>),
    /// Another process takes over the maps, and lists everything in this order.
    Restart(Vec<Step>),
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Pods,
    Slices,
    Services,
    Nodes,
    Namespaces,
}

/// What is rare of a pod.
#[derive(Debug, Clone, Copy)]
pub enum Variant {
    Plain,
    HostNetwork,
    Mirror,
    StaticIp,
    /// More addresses than are read.
    Partial,
    /// An address of another network.
    Network(Addr),
    /// Of a workload whose pods stand in for each other.
    Replica(&'static str),
}

/// Its sandbox, when that came up by the kubelet's clock, and a hash of its containers' starts.
pub type Shown = (Sandbox, u32, u32);

#[derive(Debug, Clone)]
pub struct PodStep {
    pub number: usize,
    pub namespace: &'static str,
    pub app: &'static str,
    pub bound: bool,
    pub variant: Variant,
    pub sandbox: Shown,
    /// Positions in the node's pool.
    pub ips: Vec<usize>,
}

#[derive(Debug, Clone)]
pub enum PodChange {
    Ips(Vec<usize>),
    /// An IP of another node's range.
    StrayIp,
    State(UidState),
    Deleting(bool),
    Sandbox(Shown),
    Variant(Variant),
    App(&'static str),
    Bound(Mode),
}

#[derive(Debug, Clone)]
pub struct SliceStep {
    pub number: usize,
    pub service: usize,
    pub endpoints: Vec<EndpointStep>,
    pub ports: Vec<SlicePort>,
    pub partial: bool,
    pub foreign: bool,
}

#[derive(Debug, Clone)]
pub enum EndpointStep {
    /// As the controller would write it: all IPs of a pod.
    Of(usize),
    /// Some IP for some UID, however stale, or for none, with the name of some pod.
    Stray(Addr, Option<Uid>, usize),
}

#[derive(Debug, Clone)]
pub struct ServiceStep {
    pub number: usize,
    /// `None`: no selector.
    pub app: Option<&'static str>,
    /// Empty: headless.
    pub vips: Vec<Addr>,
    pub node_port: u16,
    pub bound: Mode,
    pub partial: bool,
}

#[derive(Debug, Clone)]
pub struct NodeStep {
    pub number: usize,
    pub range: u8,
    pub more_addresses: Vec<Addr>,
    pub has_ranges: bool,
    pub rebooted: bool,
    pub virtual_kubelet: bool,
}

/// IPs of node `number`'s first ranges, dual stack. The third node has the second one's.
pub fn pool(number: usize) -> [Addr; 3] {
    let six = |range| Addr::from(std::net::IpAddr::V6(Ipv6Addr::new(0xfd00, range, 0, 0, 0, 0, 0, 10)));
    if number == 0 {
        [X, Y, six(1)]
    } else {
        [Addr::v4([10, 244, 2, 10]), Addr::v4([10, 244, 2, 11]), six(2)]
    }
}

pub fn pod_uid(number: usize) -> Uid {
    uid(&format!("pod-{number}"))
}

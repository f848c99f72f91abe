//! What may happen in a cluster, drawn from pools so small that IPs, UIDs and VIPs collide all the
//! time.
use super::*;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// How many pods there are at most at a time; a UID comes back only by mistake.
pub const PODS: usize = 8;

/// One thing that happens. Numbers choose among what exists.
#[derive(Debug, Clone)]
pub enum Step {
    /// A pod appears, or its object looks all different. False: it is not bound, if it was not
    /// before.
    Pod(Pod, bool),
    Change(usize, PodChange),
    /// DELETED, with or without a deletionTimestamp.
    Delete(usize, bool),
    Slice(SliceStep),
    DeleteSlice(usize),
    Service(Service),
    DeleteService(usize),
    Node(Node),
    DeleteNode(usize),
    Namespace(&'static str, Mode),
    Local(Vec<Addr>),
    /// The IPs that the node's routes and neighbours lead to.
    Held(Vec<Addr>),
    /// The node does not say any more.
    Unknown,
    SocketLb(bool),
    /// The Nodes are proven fresh, as of so many seconds ago.
    NodeSeen(usize),
    Speaks(Addr),
    /// A watch starts over with a list; objects whose bit is set vanished in the gap.
    Relist(Watched, u8),
    /// A list of some pods, or of a Service's slices, beside the watch; objects whose bit is set
    /// are gone.
    Part(Watched, usize, u8),
    Wait(u64),
    /// A packet was aimed at a denied endpoint.
    Hit(usize),
    /// Things that no watch shows, then lists of everything in this order.
    Gap(Vec<Step>, Vec<Step>),
    /// Another process takes over the maps, and lists everything in this order.
    Restart(Vec<Step>),
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
    Network(Addr),
    /// It has a host port, which is also a Service's.
    HostPort(u16),
}

/// Its sandbox, when that came up by the kubelet's clock, and a hash of its containers' starts.
pub type Shown = (Sandbox, u32, u32);

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
    /// Besides those of the listed pods.
    pub namespace: Option<&'static str>,
    pub partial: bool,
    pub foreign: bool,
}

#[derive(Debug, Clone)]
pub enum EndpointStep {
    /// As the controller would write it: all IPs of a pod.
    Of(usize),
    /// Some IP for some UID, however stale, or for none.
    Stray(Addr, Option<Uid>),
}

/// IPs of node `number`'s first ranges, dual stack. The third node has the second one's.
pub fn pool(number: usize) -> [Addr; 3] {
    let six = |range| {
        Addr::from(std::net::IpAddr::V6(Ipv6Addr::new(
            0xfd00, range, 0, 0, 0, 0, 0, 10,
        )))
    };
    if number == 0 {
        [X, Y, six(1)]
    } else {
        [
            Addr::v4([10, 244, 2, 10]),
            Addr::v4([10, 244, 2, 11]),
            six(2),
        ]
    }
}

pub fn pod_uid(number: usize) -> Uid {
    uid(&format!("pod-{number}"))
}

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
    Node {
        pod_cidrs: plain.pod_cidrs.iter().copied().chain(six).collect(),
        ..plain
    }
}

pub fn list<K: Ord, T: Clone>(objects: &mut BTreeMap<K, T>, gone: u8) -> Change<T> {
    let mut vanished = vanish(gone);
    objects.retain(|_, _| !vanished());
    Change::Reset(objects.values().cloned().collect())
}

/// The objects that are asked for; removes those whose bit is set.
pub fn some<K: Ord, T: Clone>(
    objects: &mut BTreeMap<K, T>,
    is_asked: impl Fn(&T) -> bool,
    gone: u8,
) -> Vec<T> {
    let mut vanished = vanish(gone);
    objects.retain(|_, object| !is_asked(object) || !vanished());
    objects
        .values()
        .filter(|object| is_asked(object))
        .cloned()
        .collect()
}

fn vanish(gone: u8) -> impl FnMut() -> bool {
    let mut bits = gone;
    move || {
        let vanished = bits & 1 == 1;
        bits >>= 1;
        vanished
    }
}

//! What may happen in a cluster, drawn from pools so small that IPs, UIDs and VIPs collide all the time.
use crate::world::{NODE, X, Y, uid};
use epguard::facts::{Presence, Protocol, Sandbox, ServicePort, SlicePort, Standing};
use epguard_common::{Addr, Uid};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
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
    Local(Vec<Addr>),
    Presence(Presence),
    /// A watch starts over with a list; objects whose bit is set vanished in the gap.
    Relist(Kind, u8),
    Wait(u64),
    /// A packet was aimed at a denied endpoint.
    Hit(usize),
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Either of the scope's Pod watches.
    Pods(usize),
    Slices,
    Services,
    Nodes,
}

#[derive(Debug, Clone)]
pub struct PodStep {
    pub number: usize,
    pub namespace: &'static str,
    pub app: &'static str,
    pub bound: bool,
    pub host_network: bool,
    pub mirror: bool,
    pub sandbox: Sandbox,
    /// Positions in the node's pool.
    pub ips: Vec<usize>,
}

#[derive(Debug, Clone)]
pub enum PodChange {
    Ips(Vec<usize>),
    /// An IP of another node's range.
    StrayIp,
    Standing(Standing),
    Deleting(bool),
    Sandbox(Sandbox),
    App(&'static str),
    OptedOut(bool),
    HostIps(Vec<Addr>),
}

#[derive(Debug, Clone)]
pub struct SliceStep {
    pub number: usize,
    pub service: usize,
    pub endpoints: Vec<EndpointStep>,
    pub ports: Vec<SlicePort>,
}

#[derive(Debug, Clone)]
pub enum EndpointStep {
    /// As the controller would write it: all IPs of a pod.
    Of(usize),
    /// Some IP for some UID, however stale, or for none.
    Stray(Addr, Option<Uid>),
}

#[derive(Debug, Clone)]
pub struct ServiceStep {
    pub number: usize,
    /// `None`: no selector.
    pub app: Option<&'static str>,
    /// Empty: headless.
    pub vips: Vec<Addr>,
    pub node_port: u16,
    pub opted_out: bool,
}

#[derive(Debug, Clone)]
pub struct NodeStep {
    pub number: usize,
    pub more_addresses: Vec<Addr>,
    pub has_ranges: bool,
    pub rebooted: bool,
    pub virtual_kubelet: bool,
}

/// IPs of node `number`'s ranges, dual stack.
pub fn pool(number: usize) -> [Addr; 3] {
    let six = |range| {
        Addr::from(std::net::IpAddr::V6(Ipv6Addr::new(
            0xfd00, range, 0, 0, 0, 0, 0, 10,
        )))
    };
    if number == 0 {
        [X, Y, six(1)]
    } else {
        [Addr::v4([10, 244, 2, 10]), Addr::v4([10, 244, 2, 11]), six(2)]
    }
}

pub fn pod_uid(number: usize) -> Uid {
    uid(&format!("pod-{number}"))
}

pub fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => any_pod().prop_map(Step::Pod),
        24 => (0..PODS, any_change()).prop_map(|(pod, change)| Step::Change(pod, change)),
        6 => (0..PODS, prop::bool::weighted(0.8)).prop_map(|(pod, deleting)| Step::Delete(pod, deleting)),
        20 => any_slice().prop_map(Step::Slice),
        3 => (0..4_usize).prop_map(Step::DeleteSlice),
        6 => any_service().prop_map(Step::Service),
        1 => (0..4_usize).prop_map(Step::DeleteService),
        2 => any_node().prop_map(Step::Node),
        1 => (0..2_usize).prop_map(Step::DeleteNode),
        1 => rarely_a_pods(vec![NODE]).prop_map(Step::Local),
        2 => prop::collection::vec(any_ip(), 0..2).prop_map(|ips| Step::Presence(Presence::Held(ips))),
        1 => any_ip().prop_map(|ip| Step::Presence(Presence::Spoke(ip))),
        4 => (any_kind(), prop_oneof![2 => Just(0), 2 => (0..8_u32).prop_map(|bit| 1_u8 << bit), 1 => any::<u8>()])
            .prop_map(|(kind, gone)| Step::Relist(kind, gone)),
        6 => select(vec![1, 61, 301, 601]).prop_map(Step::Wait),
        3 => (0..8_usize).prop_map(Step::Hit),
    ]
}

/// A list of each kind, after which the state is synced.
pub fn lists() -> [Step; 5] {
    [
        Kind::Pods(0),
        Kind::Pods(1),
        Kind::Slices,
        Kind::Services,
        Kind::Nodes,
    ]
    .map(|kind| Step::Relist(kind, 0))
}

fn any_pod() -> impl Strategy<Value = PodStep> {
    (
        0..PODS,
        prop_oneof![3 => Just("shop"), 1 => Just("other")],
        any_app(),
        prop::bool::weighted(0.95),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.05),
        any_sandbox(),
        any_ips(),
    )
        .prop_map(
            |(number, namespace, app, bound, host_network, mirror, sandbox, ips)| PodStep {
                number,
                namespace,
                app,
                bound,
                host_network,
                mirror,
                sandbox,
                ips,
            },
        )
}

fn any_change() -> impl Strategy<Value = PodChange> {
    prop_oneof![
        3 => any_ips().prop_map(PodChange::Ips),
        1 => Just(PodChange::StrayIp),
        10 => select(vec![Standing::Live, Standing::Terminal, Standing::Dead, Standing::Dead])
            .prop_map(PodChange::Standing),
        3 => any::<bool>().prop_map(PodChange::Deleting),
        2 => any_sandbox().prop_map(PodChange::Sandbox),
        2 => any_app().prop_map(PodChange::App),
        1 => any::<bool>().prop_map(PodChange::OptedOut),
        1 => rarely_a_pods(vec![NODE]).prop_map(PodChange::HostIps),
    ]
}

fn any_slice() -> impl Strategy<Value = SliceStep> {
    let endpoint = prop_oneof![
        4 => (0..PODS).prop_map(EndpointStep::Of),
        1 => (any_ip(), prop::option::weighted(0.8, (0..PODS).prop_map(pod_uid)))
            .prop_map(|(ip, target)| EndpointStep::Stray(ip, target)),
    ];
    let port = |port, protocol| SlicePort { port, protocol };
    let ports = vec![port(8080, Protocol::Tcp), port(9090, Protocol::Udp)];
    (
        0..4_usize,
        0..4_usize,
        prop::collection::vec(endpoint, 0..4),
        subsequence(ports, 1..=2),
    )
        .prop_map(|(number, service, endpoints, ports)| SliceStep {
            number,
            service,
            endpoints,
            ports,
        })
}

fn any_service() -> impl Strategy<Value = ServiceStep> {
    let vips = vec![
        Addr::v4([10, 96, 0, 1]),
        Addr::v4([10, 96, 0, 2]),
        Addr::v4([10, 96, 0, 3]),
    ];
    (
        0..4_usize,
        prop::option::weighted(0.8, any_app()),
        subsequence(vips, 0..=2),
        select(vec![0, 0, 30080]),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(number, app, vips, node_port, opted_out)| ServiceStep {
            number,
            app,
            vips,
            node_port,
            opted_out,
        })
}

fn any_node() -> impl Strategy<Value = NodeStep> {
    (
        0..2_usize,
        rarely_a_pods(vec![]),
        prop::bool::weighted(0.8),
        any::<bool>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(number, more_addresses, has_ranges, rebooted, virtual_kubelet)| NodeStep {
                number,
                more_addresses,
                has_ranges,
                rebooted,
                virtual_kubelet,
            },
        )
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => (0..2_usize).prop_map(Kind::Pods),
        1 => Just(Kind::Slices),
        1 => Just(Kind::Services),
        1 => Just(Kind::Nodes),
    ]
}

fn any_app() -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just("web"), 1 => Just("api")]
}

fn any_sandbox() -> impl Strategy<Value = Sandbox> {
    prop_oneof![4 => Just(Sandbox::Published), 1 => Just(Sandbox::Unsettled)]
}

fn any_ips() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        1 => Just(vec![]),
        6 => (0..3_usize).prop_map(|ip| vec![ip]),
        2 => subsequence(vec![0, 1, 2], 2),
    ]
}

fn any_ip() -> impl Strategy<Value = Addr> {
    select([pool(0), pool(1)].concat())
}

/// An address of a node is never judged again, so one from the pods' pool costs a sequence much of its worth.
fn rarely_a_pods(usual: Vec<Addr>) -> impl Strategy<Value = Vec<Addr>> {
    prop_oneof![3 => Just(usual), 1 => any_ip().prop_map(|ip| vec![ip])]
}

/// The port that all Services have.
pub fn service_port(node_port: u16) -> ServicePort {
    ServicePort {
        port: 80,
        node_port,
        protocol: Protocol::Tcp,
    }
}

//! Pods: their identity, the IPs that they publish, and what their status proves.

mod death;

pub use death::Doubt;

use super::{
    Ignored, Ip, Labels, ManagedFields, Object, ObjectName, OrDefault, Protocol, RawObject,
    RawText, Text, Unreadable, addr, hash, shared,
};
use epguard_common::{Addr, Mode, Uid, UidState};
use serde::Deserialize;
use smallvec::SmallVec;
use std::hash::Hash;
use std::num::NonZeroU32;

/// Host ports of a pod that are read. One with more may have any.
const MOST_HOST_PORTS: usize = 256;

/// IPs of a pod, of which nearly all have one.
pub type Ips = SmallVec<[Addr; 1]>;

/// A pod, as far as endpoints are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts of the object, not a state machine"
)]
pub struct Pod {
    /// Identity of the pod; a later pod of the same name has another UID.
    pub uid: Uid,
    /// Namespace and name.
    pub name: ObjectName,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// For Service selectors.
    pub labels: Labels,
    /// Published pod IPs; for a hostNetwork pod the node's.
    pub ips: Ips,
    /// Addresses of all its networks as annotations show them; the pod network's may be among them.
    pub network_ips: Box<[Addr]>,
    /// It shows more of them than are read, or an IP that cannot be read: it may hold any IP.
    pub partial: bool,
    /// Ports of its node's addresses that the CNI translates to it.
    pub host_ports: Box<[HostPort]>,
    /// Its IP outlives it by design.
    pub static_ip: bool,
    /// `spec.hostNetwork`: its IPs are the node's and are never judged.
    pub host_network: bool,
    /// A static pod's mirror (annotation `kubernetes.io/config.mirror`): its UID proves nothing
    /// about containers.
    pub mirror: bool,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// What its own status proves: retired if the phase is terminal, dead if the kubelet wrote that
    /// after it had torn down the sandbox's network (`KDEAD`).
    pub uid_state: UidState,
    /// Why it is not proven dead, though its containers have ended.
    pub doubt: Option<Box<Doubt>>,
    /// Whether `ips` are those of the sandbox that runs, as far as this object alone shows it.
    pub sandbox: Sandbox,
    /// When the current sandbox came up, by the kubelet's clock, in seconds since 1970.
    pub sandbox_since: Option<NonZeroU32>,
    /// A hash of the times at which its containers were started; 0 if none was.
    pub starts: u32,
    /// A hash of the reasons why its containers wait.
    pub waits: u32,
    /// Highest mode that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
}

/// Whether the published IPs are those of the sandbox that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// A container was started in the sandbox that is up, by the kubelet's clock: the IPs are
    /// current.
    Published,
    /// By that clock all containers were started before, but none of them twice: the clock may have
    /// been set back.
    FirstStarts,
    /// No container start seen since the sandbox came up, or no sandbox: the pod may hold another
    /// IP than it shows.
    #[default]
    Unsettled,
}

/// A port of a pod's node that leads to the pod (core/v1 `ContainerPort`, `hostPort`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The address that it is on; none: all of the node's.
    pub addr: Option<Addr>,
    /// Host order; 0: any.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

impl HostPort {
    /// Any port of a protocol, on all addresses.
    const fn any(protocol: Protocol) -> Self {
        Self {
            addr: None,
            port: 0,
            protocol,
        }
    }
}

impl Pod {
    /// Every address that it shows, on any network.
    pub fn addresses(&self) -> impl Iterator<Item = Addr> {
        let further = self.network_ips.iter().filter(|ip| !self.ips.contains(ip));
        self.ips.iter().chain(further).copied()
    }
}

impl Object for Pod {
    const KIND: &'static str = "Pod";
    const PATH: &'static str = "/api/v1/pods";

    type Raw<'a> = RawPod<'a>;

    fn from_named(raw: RawPod<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let uid = raw.metadata.uid()?;
        let mirror = raw
            .metadata
            .annotations
            .contains_key("kubernetes.io/config.mirror");
        let (uid_state, doubt) = raw.uid_state(mirror);
        let (network_ips, has_more) = raw.metadata.network_ips(ignored);
        Ok(Self {
            uid,
            name: raw.metadata.name(),
            ips: raw.status.ips(),
            uid_state,
            doubt: doubt.map(Box::new),
            sandbox: raw.status.sandbox(),
            sandbox_since: raw.status.sandbox_since(),
            starts: raw.status.starts(),
            waits: raw.status.waits(),
            host_network: raw.spec.host_network,
            mirror,
            deleting: raw.metadata.deletion_timestamp.is_some(),
            bound: raw.metadata.bound(ignored),
            network_ips: network_ips.into(),
            partial: has_more || raw.status.shows_unreadable_ip(),
            host_ports: raw.spec.host_ports(),
            static_ip: raw.metadata.static_ip(),
            node: raw
                .spec
                .node_name
                .filter(|node| !node.is_empty())
                .map(|node| shared(&node)),
            labels: Labels::of_pod(raw.metadata.labels.iter()),
        })
    }
}

/// What is read of its JSON.
type RawPod<'a> = RawObject<'a, Spec<'a>, Status<'a>>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<RawText<'a>>,
    host_network: bool,
    containers: Vec<RawContainer<'a>>,
    init_containers: OrDefault<Vec<RawContainer<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawContainer<'a> {
    #[serde(borrow)]
    ports: OrDefault<Vec<RawPort<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawPort<'a> {
    host_port: i64,
    #[serde(rename = "hostIP", borrow)]
    host_ip: RawText<'a>,
    protocol: Option<RawText<'a>>,
}

impl Spec<'_> {
    /// Its host ports; none in the host network, where nothing translates a port.
    fn host_ports(&self) -> Box<[HostPort]> {
        if self.host_network {
            return Box::default();
        }
        let containers = self.containers.iter().chain(&*self.init_containers);
        let ports = containers.flat_map(|container| &*container.ports);
        let ports: Vec<HostPort> = ports
            .filter_map(RawPort::host_port)
            .take(MOST_HOST_PORTS + 1)
            .collect();
        if ports.len() > MOST_HOST_PORTS {
            return [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
                .map(HostPort::any)
                .into();
        }
        ports.into()
    }
}

impl RawPort<'_> {
    fn host_port(&self) -> Option<HostPort> {
        let port = u16::try_from(self.host_port)
            .ok()
            .filter(|&port| port != 0)?;
        let protocol = Protocol::parse(self.protocol.as_deref())?;
        // `addr` reads no unspecified address: that stands for all.
        Some(HostPort {
            addr: addr(&self.host_ip),
            port,
            protocol,
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Status<'a> {
    #[serde(borrow)]
    phase: RawText<'a>,
    #[serde(rename = "podIP")]
    pod_ip: RawText<'a>,
    #[serde(rename = "podIPs")]
    pod_ips: OrDefault<Vec<Ip<'a>>>,
    conditions: OrDefault<Vec<Condition<'a>>>,
    container_statuses: OrDefault<Vec<Container<'a>>>,
    init_container_statuses: OrDefault<Vec<Container<'a>>>,
    ephemeral_container_statuses: OrDefault<Vec<Container<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition<'a> {
    #[serde(borrow)]
    r#type: RawText<'a>,
    status: RawText<'a>,
    reason: RawText<'a>,
    last_transition_time: Option<RawText<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container<'a> {
    #[serde(borrow)]
    state: ContainerState<'a>,
    last_state: ContainerState<'a>,
    restart_count: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState<'a> {
    #[serde(borrow)]
    waiting: Option<Wait<'a>>,
    running: Option<Run<'a>>,
    terminated: Option<Run<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wait<'a> {
    #[serde(borrow)]
    reason: RawText<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Run<'a> {
    #[serde(borrow)]
    started_at: Option<RawText<'a>>,
}

impl Status<'_> {
    fn condition(&self, kind: &str) -> Option<&Condition<'_>> {
        self.conditions.iter().find(|c| &*c.r#type == kind)
    }

    fn containers(&self) -> impl Iterator<Item = &Container<'_>> {
        self.container_statuses
            .iter()
            .chain(&*self.init_container_statuses)
            .chain(&*self.ephemeral_container_statuses)
    }

    /// Every container terminated or never started, at least one terminated, and none without a
    /// status.
    fn containers_are_over(&self, containers: usize) -> bool {
        self.container_statuses.len() >= containers
            && self.containers().all(Container::is_over)
            && self.containers().any(|c| c.state.terminated.is_some())
    }

    fn ips(&self) -> Ips {
        let listed = self.pod_ips.iter().filter_map(Ip::addr);
        let mut ips: Ips = listed.chain(addr(&self.pod_ip)).collect();
        ips.sort_unstable();
        ips.dedup();
        ips.shrink_to_fit();
        ips
    }

    /// True if it shows an IP that is none of one host: which one the pod has is unknown.
    fn shows_unreadable_ip(&self) -> bool {
        let listed = self.pod_ips.iter().map(|listed| &listed.ip);
        let mut shown = listed.chain([&self.pod_ip]).filter(|ip| !ip.is_empty());
        shown.any(|ip| addr(ip).is_none())
    }

    /// The kubelet reports a new sandbox (`PodReadyToStartContainers=True`) from its cached status,
    /// with the old IPs and the old containers (`kubelet.go:OnPodSandboxReady`, 1.36): the IPs are
    /// current once a container was started after that. Both times are the kubelet's own, in whole
    /// seconds.
    fn sandbox(&self) -> Sandbox {
        let up = self.condition("PodReadyToStartContainers");
        if up.is_some_and(|up| &*up.status != "True") {
            return Sandbox::Unsettled;
        }
        let since = up.and_then(|up| up.last_transition_time.as_deref());
        let started = self.containers().flat_map(Container::starts).max();
        match (started, since) {
            (None, _) => Sandbox::Unsettled,
            (Some(started), Some(since)) if started < since => {
                let is_first = self
                    .containers()
                    .all(|container| container.restart_count == 0);
                if is_first {
                    Sandbox::FirstStarts
                } else {
                    Sandbox::Unsettled
                }
            }
            _ => Sandbox::Published,
        }
    }

    fn starts(&self) -> u32 {
        let starts: Vec<&str> = self.containers().flat_map(Container::starts).collect();
        if starts.is_empty() {
            0
        } else {
            short_hash(&starts) | 1
        }
    }

    fn waits(&self) -> u32 {
        let waiting = self
            .containers()
            .map(|container| container.state.waiting.as_ref());
        let reasons: Vec<Option<&str>> = waiting
            .map(|waiting| waiting.map(|waiting| &*waiting.reason))
            .collect();
        short_hash(&reasons)
    }

    fn sandbox_since(&self) -> Option<NonZeroU32> {
        let up = self.condition("PodReadyToStartContainers");
        let since = up
            .filter(|up| &*up.status == "True")?
            .last_transition_time
            .as_deref()?;
        let since = since.parse::<jiff::Timestamp>().ok()?.as_second();
        NonZeroU32::new(u32::try_from(since).ok()?)
    }
}

fn short_hash(of: impl Hash) -> u32 {
    let [a, b, c, d, ..] = hash(of).to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

impl Container<'_> {
    fn is_over(&self) -> bool {
        let never_started = self.state.running.is_none() && self.last_state.terminated.is_none();
        self.state.terminated.is_some() || never_started
    }

    /// RFC 3339 in UTC and whole seconds, as the kubelet writes it; such times compare as text.
    fn starts(&self) -> impl Iterator<Item = &str> {
        let runs = [
            &self.state.running,
            &self.state.terminated,
            &self.last_state.terminated,
        ];
        runs.into_iter()
            .filter_map(|run| run.as_ref()?.started_at.as_deref())
    }
}

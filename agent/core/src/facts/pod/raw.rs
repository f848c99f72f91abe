//! What is read of a pod's JSON: its host ports, its IPs, and the states of its containers.

use crate::facts::json::{OrDefault, RawIp, RawText, addr};
use crate::facts::object::RawObject;
use crate::facts::protocol::Protocol;
use crate::facts::text::{Text, hash, shared};
use epguard_common::Addr;
use serde::Deserialize;
use std::hash::Hash;
use std::num::NonZeroU32;

/// Host ports of a pod that are read. One with more may have any.
const MOST_HOST_PORTS: usize = 256;

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

/// What is read of its JSON.
pub type RawPod<'a> = RawObject<'a, PodSpec<'a>, PodStatus<'a>>;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec<'a> {
    #[serde(borrow)]
    node_name: Option<RawText<'a>>,
    pub(super) host_network: bool,
    pub(super) containers: Vec<RawContainer<'a>>,
    init_containers: OrDefault<Vec<RawContainer<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawContainer<'a> {
    #[serde(borrow)]
    ports: OrDefault<Vec<RawContainerPort<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerPort<'a> {
    host_port: i64,
    #[serde(rename = "hostIP", borrow)]
    host_ip: RawText<'a>,
    protocol: Option<RawText<'a>>,
}

impl PodSpec<'_> {
    /// The node that the pod is bound to.
    pub(super) fn node(&self) -> Option<Text> {
        let name = self.node_name.as_ref()?;
        if name.is_empty() {
            return None;
        }
        Some(shared(name))
    }

    /// Its host ports; none in the host network, where nothing translates a port.
    pub(super) fn host_ports(&self) -> Box<[HostPort]> {
        if self.host_network {
            return Box::default();
        }
        let containers = self.containers.iter().chain(&*self.init_containers);
        let ports: Vec<HostPort> = containers
            .flat_map(|container| &*container.ports)
            .filter_map(RawContainerPort::host_port)
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

impl RawContainerPort<'_> {
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
pub struct PodStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: RawText<'a>,
    #[serde(rename = "podIP")]
    pod_ip: RawText<'a>,
    #[serde(rename = "podIPs")]
    pod_ips: OrDefault<Vec<RawIp<'a>>>,
    conditions: OrDefault<Vec<Condition<'a>>>,
    container_statuses: OrDefault<Vec<ContainerStatus<'a>>>,
    init_container_statuses: OrDefault<Vec<ContainerStatus<'a>>>,
    ephemeral_container_statuses: OrDefault<Vec<ContainerStatus<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition<'a> {
    #[serde(borrow)]
    r#type: RawText<'a>,
    pub(super) status: RawText<'a>,
    pub(super) reason: RawText<'a>,
    last_transition_time: Option<RawText<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus<'a> {
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

impl PodStatus<'_> {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition<'_>> {
        self.conditions.iter().find(|c| &*c.r#type == kind)
    }

    fn containers(&self) -> impl Iterator<Item = &ContainerStatus<'_>> {
        self.container_statuses
            .iter()
            .chain(&*self.init_container_statuses)
            .chain(&*self.ephemeral_container_statuses)
    }

    /// Every container terminated or never started, at least one terminated, and none without a
    /// status.
    pub(super) fn containers_are_over(&self, containers: usize) -> bool {
        self.container_statuses.len() >= containers
            && self.containers().all(ContainerStatus::is_over)
            && self.containers().any(|c| c.state.terminated.is_some())
    }

    pub(super) fn ips(&self) -> Vec<Addr> {
        let listed = self.pod_ips.iter().filter_map(RawIp::addr);
        let mut ips: Vec<Addr> = listed.chain(addr(&self.pod_ip)).collect();
        ips.sort_unstable();
        ips.dedup();
        ips.shrink_to_fit();
        ips
    }

    /// True if it shows an IP that is none of one host: which one the pod has is unknown.
    pub(super) fn shows_unreadable_ip(&self) -> bool {
        let listed = self.pod_ips.iter().map(|listed| &listed.ip);
        let mut shown = listed.chain([&self.pod_ip]).filter(|ip| !ip.is_empty());
        shown.any(|ip| addr(ip).is_none())
    }

    /// The kubelet reports a new sandbox (`PodReadyToStartContainers=True`) from its cached status,
    /// with the old IPs and the old containers (`kubelet.go:OnPodSandboxReady`, 1.36): the IPs are
    /// current once a container was started after that. Both times are the kubelet's own, in whole
    /// seconds.
    pub(super) fn sandbox(&self) -> Sandbox {
        let up = self.condition("PodReadyToStartContainers");
        if up.is_some_and(|up| &*up.status != "True") {
            return Sandbox::Unsettled;
        }
        let since = up.and_then(|up| up.last_transition_time.as_deref());
        let started = self.containers().flat_map(ContainerStatus::starts).max();
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

    /// A hash of the times at which its containers were started; 0 if none was.
    pub(super) fn hash_of_starts(&self) -> u32 {
        let starts: Vec<&str> = self
            .containers()
            .flat_map(ContainerStatus::starts)
            .collect();
        if starts.is_empty() {
            0
        } else {
            short_hash(&starts) | 1
        }
    }

    /// A hash of the reasons why its containers wait.
    pub(super) fn hash_of_waits(&self) -> u32 {
        let reasons: Vec<Option<&str>> = self
            .containers()
            .map(|container| Some(&*container.state.waiting.as_ref()?.reason))
            .collect();
        short_hash(&reasons)
    }

    pub(super) fn sandbox_since(&self) -> Option<NonZeroU32> {
        let up = self.condition("PodReadyToStartContainers")?;
        if &*up.status != "True" {
            return None;
        }
        let text = up.last_transition_time.as_deref()?;
        let since = text.parse::<jiff::Timestamp>().ok()?;
        NonZeroU32::new(u32::try_from(since.as_second()).ok()?)
    }
}

fn short_hash(of: impl Hash) -> u32 {
    let [a, b, c, d, ..] = hash(of).to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

impl ContainerStatus<'_> {
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

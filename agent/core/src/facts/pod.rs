//! Pods: their identity, the IPs that they publish, and what their status proves.

mod death;

pub use death::Doubt;

use super::{
    Ignored, Ip, Labels, ManagedFields, Name, Object, OrDefault, RawObject, RawText, Text, Unreadable,
    Workload, addr, hash, shared,
};
use epguard_common::{Addr, Mode, Uid, UidState};
use serde::Deserialize;
use smallvec::SmallVec;
use std::num::NonZeroU32;

/// IPs of a pod, of which nearly all have one.
pub type Ips = SmallVec<[Addr; 1]>;

/// A pod, as far as endpoints are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of the object, not a state machine")]
pub struct Pod {
    /// Identity of the pod; a later pod of the same name has another UID.
    pub uid: Uid,
    /// Namespace and name.
    pub name: Name,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// For Service selectors.
    pub labels: Labels,
    /// The workload whose pods stand in for it.
    pub workload: Option<Workload>,
    /// Published pod IPs; for a hostNetwork pod the node's.
    pub ips: Ips,
    /// Addresses of all its networks as annotations show them; the pod network's may be among them.
    pub network_ips: Box<[Addr]>,
    /// It shows more of them than are read: it may hold any IP.
    pub partial: bool,
    /// Its IP outlives it by design.
    pub static_ip: bool,
    /// `spec.hostNetwork`: its IPs are the node's and are never judged.
    pub host_network: bool,
    /// A static pod's mirror (annotation `kubernetes.io/config.mirror`): its UID proves nothing about containers.
    pub mirror: bool,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// What its own status proves: retired if the phase is terminal, dead if the kubelet wrote that after it had torn down
    /// the sandbox's network (`KDEAD`).
    pub uid_state: UidState,
    /// Why it is not proven dead, though its containers have ended.
    pub doubt: Option<Box<Doubt>>,
    /// Whether `ips` are those of the sandbox that runs, as far as this object alone shows it.
    pub sandbox: Sandbox,
    /// When the current sandbox came up, by the kubelet's clock, in seconds since 1970.
    pub sandbox_since: Option<NonZeroU32>,
    /// A hash of the times at which its containers were started; 0 if none was.
    pub starts: u32,
    /// Highest mode that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
}

/// Whether the published IPs are those of the sandbox that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// A container was started in the sandbox that is up, by the kubelet's clock: the IPs are current.
    Published,
    /// By that clock all containers were started before, but none of them twice: the clock may have been set back.
    FirstStarts,
    /// No container start seen since the sandbox came up, or no sandbox: the pod may hold another IP than it shows.
    #[default]
    Unsettled,
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
        let mirror = raw.metadata.annotations.contains_key("kubernetes.io/config.mirror");
        let (uid_state, doubt) = raw.uid_state(mirror);
        let (network_ips, partial) = raw.metadata.network_ips(ignored);
        Ok(Self {
            uid,
            name: raw.metadata.name(),
            ips: raw.status.ips(),
            uid_state,
            doubt: doubt.map(Box::new),
            sandbox: raw.status.sandbox(),
            sandbox_since: raw.status.sandbox_since(),
            starts: raw.status.starts(),
            host_network: raw.spec.host_network,
            mirror,
            deleting: raw.metadata.deletion_timestamp.is_some(),
            bound: raw.metadata.bound(ignored),
            network_ips: network_ips.into(),
            partial,
            static_ip: raw.metadata.static_ip(),
            node: raw.spec.node_name.filter(|node| !node.is_empty()).map(|node| shared(&node)),
            labels: Labels::of_pod(raw.metadata.labels.iter()),
            workload: raw.metadata.workload(),
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
    containers: Vec<serde::de::IgnoredAny>,
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
    restart_count: u32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerState<'a> {
    #[serde(borrow)]
    running: Option<Run<'a>>,
    terminated: Option<Run<'a>>,
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

    /// Every container terminated or never started, at least one terminated, and none without a status.
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

    /// The kubelet reports a new sandbox (`PodReadyToStartContainers=True`) from its cached status, with the old
    /// IPs and the old containers (`kubelet.go:OnPodSandboxReady`, 1.36): the IPs are current once a container
    /// was started after that. Both times are the kubelet's own, in whole seconds.
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
                let is_first = self.containers().all(|container| container.restart_count == 0);
                if is_first { Sandbox::FirstStarts } else { Sandbox::Unsettled }
            }
            _ => Sandbox::Published,
        }
    }

    fn starts(&self) -> u32 {
        let starts: Vec<&str> = self.containers().flat_map(Container::starts).collect();
        let [a, b, c, d, ..] = hash(&starts).to_ne_bytes();
        if starts.is_empty() { 0 } else { u32::from_ne_bytes([a, b, c, d]) | 1 }
    }

    fn sandbox_since(&self) -> Option<NonZeroU32> {
        let up = self.condition("PodReadyToStartContainers");
        let since = up.filter(|up| &*up.status == "True")?.last_transition_time.as_deref()?;
        let since = since.parse::<jiff::Timestamp>().ok()?.as_second();
        NonZeroU32::new(u32::try_from(since).ok()?)
    }
}

impl Container<'_> {
    fn is_over(&self) -> bool {
        let never_started = self.state.running.is_none() && self.last_state.terminated.is_none();
        self.state.terminated.is_some() || never_started
    }

    /// RFC 3339 in UTC and whole seconds, as the kubelet writes it; such times compare as text.
    fn starts(&self) -> impl Iterator<Item = &str> {
        let runs = [&self.state.running, &self.state.terminated, &self.last_state.terminated];
        runs.into_iter().filter_map(|run| run.as_ref()?.started_at.as_deref())
    }
}

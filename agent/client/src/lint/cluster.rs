//! The objects of the API at one moment, as an agent that was shown the lists once knows them.

use super::unlisted::{Unlisted, UnlistedPods};
use crate::watch::{Failure, OneList, list_once};
use anyhow::Result;
use epguard_common::{Addr, Uid, UidState};
use epguard_core::facts::{
    Change, Cidr, Fact, ListedSlice, Node, ObjectName, Pod, PortName, Protocol, Service, Slice,
    SlicePort,
};
use epguard_core::state::{
    ClusterIndex, Exemption, Ipam, OwnPods, Ranges, Record, Settings, State,
};
use kube::Client;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

/// Everything that was listed.
#[derive(Debug, Default, Clone)]
pub struct ListedObjects {
    /// `EndpointSlices` to check.
    pub slices: Vec<ListedSlice>,
    /// All Services, or those that the credentials permit.
    pub services: Vec<Service>,
    /// All pods, or those that the credentials permit.
    pub pods: Vec<Pod>,
    /// All Nodes; none if the credentials do not permit them.
    pub nodes: Vec<Node>,
    /// What these lists lack.
    pub unlisted: Unlisted,
}

impl ListedObjects {
    /// Lists once. With a namespace, rights in that namespace are enough. Slices are of that
    /// namespace; pods, Services and Nodes are those that the credentials permit.
    ///
    /// Errors name the list, the cause and the remedy.
    pub async fn fetch(client: &Client, namespace: Option<&str>) -> Result<Self> {
        let mut unlisted = Unlisted::default();
        let slices = unlisted.take(list_once(client, namespace).await, namespace)?;
        let mut services = list_once(client, None).await;
        if namespace.is_some() && is_forbidden(&services) {
            unlisted.services = true;
            services = list_once(client, namespace).await;
        }
        let mut pods = list_once(client, None).await;
        if let Some(namespace) = namespace
            && is_forbidden(&pods)
        {
            unlisted.pods = UnlistedPods::OutsideOf(namespace.to_owned());
            pods = list_once(client, Some(namespace)).await;
        }
        if is_forbidden(&pods) {
            unlisted.pods = UnlistedPods::All;
            pods = Ok(OneList::default());
        }
        if let Ok(pods) = &pods {
            unlisted.unreadable_pods.clone_from(&pods.unreadable);
        }
        let mut nodes = list_once(client, None).await;
        if is_forbidden(&nodes) {
            unlisted.nodes = true;
            nodes = Ok(OneList::default());
        }
        Ok(Self {
            slices,
            services: unlisted.take(services, namespace)?,
            pods: unlisted.take(pods, namespace)?,
            nodes: unlisted.take(nodes, namespace)?,
            unlisted,
        })
    }
}

fn is_forbidden<O>(list: &Result<OneList<O>, Failure>) -> bool {
    list.as_ref().is_err_and(Failure::is_forbidden)
}

/// Everything that was listed, indexed.
pub struct Cluster<'a> {
    /// Which pods have an address, which are spared, and which are a Service's own.
    state: State,
    by_name: HashMap<&'a ObjectName, Uid>,
    /// What the lists lack.
    pub unlisted: &'a Unlisted,
    /// The Services and Nodes that have an address.
    pub not_pods: BTreeMap<Addr, Vec<NotPod<'a>>>,
    ranges: Vec<Cidr>,
    /// Whether pods get their addresses from their node's range here: more than half of those with
    /// an address do.
    pub ranges_are_used: bool,
}

/// A Service or a Node that has an address.
#[derive(Debug, Clone, Copy)]
pub enum NotPod<'a> {
    /// A Service: one of its VIPs.
    Service(&'a ObjectName),
    /// A Node: one of its own addresses.
    Node(&'a str),
}

impl fmt::Display for NotPod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name) => write!(f, "Service {name}"),
            Self::Node(name) => write!(f, "Node {name}"),
        }
    }
}

impl<'a> Cluster<'a> {
    /// Builds the indexes.
    pub fn new(listed: &'a ListedObjects) -> Self {
        let ListedObjects {
            services,
            pods,
            nodes,
            unlisted,
            ..
        } = listed;
        let mut not_pods: BTreeMap<Addr, Vec<NotPod<'a>>> = BTreeMap::new();
        for service in services {
            for ip in &service.vips {
                let others = not_pods.entry(*ip).or_default();
                others.push(NotPod::Service(&service.name));
            }
        }
        for node in nodes {
            for ip in &node.addresses {
                let others = not_pods.entry(*ip).or_default();
                others.push(NotPod::Node(&node.name));
            }
        }
        let mut cluster = Self {
            state: state_after(listed),
            by_name: pods.iter().map(|pod| (&pod.name, pod.uid)).collect(),
            unlisted,
            not_pods,
            ranges: nodes
                .iter()
                .flat_map(|node| node.pod_cidrs.iter().copied())
                .collect(),
            ranges_are_used: false,
        };
        cluster.ranges_are_used = cluster.has_most_pods_in_ranges(pods);
        cluster
    }

    /// True if more than half of the pods' addresses are in the range of the pod's node, of those
    /// whose node has one.
    fn has_most_pods_in_ranges(&self, pods: &[Pod]) -> bool {
        let mut inside = 0;
        let mut outside = 0;
        for pod in pods.iter().filter(|pod| !pod.host_network) {
            for ip in &pod.ips {
                let ranges = self.ranges(pod, *ip);
                if ranges.iter().any(|range| range.contains(*ip)) {
                    inside += 1;
                } else if !ranges.is_empty() {
                    outside += 1;
                }
            }
        }
        inside > outside
    }

    /// What an agent would know.
    pub const fn agent(&self) -> &ClusterIndex {
        self.state.cluster()
    }

    /// Whether the agent draws no conclusion from the end of the pod, as its IP may go on without
    /// it.
    pub fn is_spared(&self, pod: &Pod) -> bool {
        let record = self.agent().pods.get(pod.uid);
        match record.and_then(|record| self.agent().exempt(record)) {
            None | Some(Exemption::HostNetwork) => false,
            Some(Exemption::VirtualKubelet) => !self.agent().nodes.is_empty(),
            Some(Exemption::StaticIp | Exemption::OptedOut) => true,
        }
    }

    /// True if the pod will never run again: a kubelet reported its end, and no virtual one.
    pub fn is_proven_dead(&self, pod: &Pod) -> bool {
        let node = pod.node.as_deref();
        let node = node.and_then(|name| self.agent().nodes.get(name));
        let is_reported = node.is_some_and(|node| !node.virtual_kubelet);
        pod.uid_state == UidState::Dead && is_reported && !self.is_spared(pod)
    }

    /// Whether a live pod of the Service's own has the address: traffic for it is right there.
    pub fn has_own(&self, service: &ObjectName, ip: Addr) -> bool {
        self.agent().service(service).is_some_and(|fact| {
            let own = OwnPods::new(self.agent(), fact);
            self.holders(ip).iter().any(|pod| own.contains(pod))
        })
    }

    /// The pod of this UID.
    pub fn pod(&self, uid: Uid) -> Option<&Pod> {
        self.agent().pods.get(uid).map(|record| &record.pod)
    }

    /// The pod that has this name now.
    pub fn pod_named(&self, name: &ObjectName) -> Option<&Pod> {
        self.pod(*self.by_name.get(name)?)
    }

    /// The pods that show the address on their own network, finished ones included, by name.
    pub fn showing(&self, ip: Addr) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = self
            .agent()
            .pods
            .claimants(ip)
            .map(|Record { pod, .. }| pod)
            .collect();
        pods.sort_by_key(|pod| &pod.name);
        pods
    }

    /// The pods that have the address: those of them that have not finished.
    pub fn holders(&self, ip: Addr) -> Vec<&Pod> {
        let mut pods = self.showing(ip);
        pods.retain(|pod| pod.uid_state == UidState::Live);
        pods
    }

    /// The ranges of the pod's node that are of the address's family; none if that is not known.
    pub fn ranges(&self, pod: &Pod, ip: Addr) -> Vec<Cidr> {
        let node = pod
            .node
            .as_deref()
            .and_then(|name| self.agent().nodes.get(name));
        let cidrs = node.into_iter().flat_map(|node| &node.pod_cidrs);
        cidrs
            .filter(|cidr| cidr.is_v4() == ip.is_v4())
            .copied()
            .collect()
    }

    /// Whether the address is in the range of any node.
    pub fn is_in_a_range(&self, ip: Addr) -> bool {
        self.ranges.iter().any(|range| range.contains(ip))
    }
}

/// An agent that was shown the lists once. It judges nothing.
fn state_after(listed: &ListedObjects) -> State {
    let mut state = State::new(Settings {
        node: String::new(),
        ipam: Ipam::Auto,
        ranges: Ranges::default(),
    });
    let ListedObjects {
        slices,
        services,
        pods,
        nodes,
        ..
    } = listed;
    for fact in [
        Fact::Service(Change::Reset(services.clone())),
        Fact::Node(Change::Reset(nodes.clone())),
        Fact::Pod(Change::Reset(pods.clone())),
        Fact::Slice(Change::Reset(slices.iter().map(decided_by).collect())),
    ] {
        state.apply(Duration::ZERO, fact);
    }
    state
}

/// The slice as an agent knows it. Which pods are a Service's own depends on no port, so it has
/// any.
fn decided_by(listed: &ListedSlice) -> Slice {
    let ports = vec![SlicePort {
        name: PortName::new(""),
        port: 1,
        protocol: Protocol::Tcp,
    }];
    Slice {
        partial: false,
        ports,
        ..listed.facts.clone()
    }
}

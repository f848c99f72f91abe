//! The objects of the API at one moment, indexed for the checks.

use epguard_common::{Addr, Uid, UidState};
use epguard_core::facts::{
    Change, Cidr, Fact, ListedEndpoint, ListedSlice, Name, Node, Pod, PodName, PortName, Protocol, Service,
    Slice, SliceEndpoint, SlicePort, named,
};
use epguard_core::state::{ClusterIndex, Exemption, Ipam, Own, Ranges, Settings, State};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Everything that was listed.
#[derive(Debug, Default, Clone)]
pub struct Listed {
    /// `EndpointSlices` to check.
    pub slices: Vec<ListedSlice>,
    /// Services of the same namespaces.
    pub services: Vec<Service>,
    /// All pods, or those that the credentials permit.
    pub pods: Vec<Pod>,
    /// All Nodes; none if the credentials do not permit them.
    pub nodes: Vec<Node>,
}

/// Everything that was listed, indexed.
pub struct Cluster<'a> {
    /// The objects that were listed.
    pub listed: &'a Listed,
    /// The same in an agent's state, which decides what is spared and which pods are a Service's own.
    state: State,
    by_uid: HashMap<Uid, &'a Pod>,
    by_name: HashMap<&'a Name, &'a Pod>,
    by_ip: BTreeMap<Addr, Vec<&'a Pod>>,
    nodes: BTreeMap<&'a str, &'a Node>,
    /// Whether pods get their addresses from their node's range here: more than half of those with an address do.
    pub ranges_are_used: bool,
}

impl<'a> Cluster<'a> {
    /// Builds the indexes.
    #[must_use]
    pub fn new(listed: &'a Listed) -> Self {
        let Listed { pods, nodes, .. } = listed;
        let mut by_ip: BTreeMap<Addr, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            for ip in pod.addresses() {
                by_ip.entry(ip).or_default().push(pod);
            }
        }
        let mut cluster = Self {
            listed,
            state: agent(listed),
            by_uid: pods.iter().map(|pod| (pod.uid, pod)).collect(),
            by_name: pods.iter().map(|pod| (&pod.name, pod)).collect(),
            by_ip,
            nodes: nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            ranges_are_used: false,
        };
        cluster.ranges_are_used = cluster.most_are_in_ranges();
        cluster
    }

    /// A Service.
    #[must_use]
    pub fn service(&self, name: &Name) -> Option<&Service> {
        self.agent().service(name)
    }

    /// What an agent would know.
    const fn agent(&self) -> &ClusterIndex {
        self.state.cluster()
    }

    /// Whether the agent draws no conclusion from the end of the pod, as its IP may go on without it.
    #[must_use]
    pub fn is_spared(&self, pod: &Pod) -> bool {
        match self.agent().exempt(pod) {
            None | Some(Exemption::HostNetwork) => false,
            Some(Exemption::VirtualKubelet) => !self.nodes.is_empty(),
            Some(Exemption::StaticIp | Exemption::OptedOut) => true,
        }
    }

    /// Whether a live pod of the Service's own has the address: traffic for it is right there.
    #[must_use]
    pub fn has_own(&self, service: &Name, ip: Addr) -> bool {
        self.service(service).is_some_and(|fact| {
            let own = Own::at(self.agent(), service, fact, ip);
            self.holders(ip).any(|pod| own.contains(pod))
        })
    }

    /// The Services and Nodes that have the address.
    #[must_use]
    pub fn not_pods(&self, ip: Addr) -> Vec<String> {
        if !self.agent().is_no_pods(ip) {
            return Vec::new();
        }
        let services = self.listed.services.iter().filter(|service| service.vips.contains(&ip));
        let nodes = self.listed.nodes.iter().filter(|node| node.addresses.contains(&ip));
        let services = services.map(|service| format!("Service {}", named(&service.name)));
        services.chain(nodes.map(|node| format!("Node {}", node.name))).collect()
    }

    /// The pod of this UID.
    #[must_use]
    pub fn pod(&self, uid: Uid) -> Option<&'a Pod> {
        self.by_uid.get(&uid).copied()
    }

    /// The pod that has this name now.
    #[must_use]
    pub fn named(&self, name: &Name) -> Option<&'a Pod> {
        self.by_name.get(name).copied()
    }

    /// The pods that show the address, finished ones included.
    pub fn showing(&self, ip: Addr) -> impl Iterator<Item = &'a Pod> {
        self.by_ip.get(&ip).into_iter().flatten().copied()
    }

    /// The pods that have the address: not finished, on the pod network.
    pub fn holders(&self, ip: Addr) -> impl Iterator<Item = &'a Pod> {
        let lives = |pod: &&Pod| !pod.host_network && pod.uid_state == UidState::Live;
        self.showing(ip).filter(lives)
    }

    /// Each address with the pods that have it as their pod IP; further networks may overlap.
    pub fn addresses(&self) -> impl Iterator<Item = (Addr, Vec<&'a Pod>)> {
        let holders = |ip| self.holders(ip).filter(|pod| pod.ips.contains(&ip)).collect();
        self.by_ip.keys().map(move |ip| (*ip, holders(*ip)))
    }

    /// The ranges of the pod's node that are of the address's family; none if that is not known.
    #[must_use]
    pub fn ranges(&self, pod: &Pod, ip: Addr) -> Vec<Cidr> {
        let node = pod.node.as_deref().and_then(|name| self.nodes.get(name));
        let cidrs = node.into_iter().flat_map(|node| &node.pod_cidrs);
        cidrs.filter(|cidr| cidr.is_v4() == ip.is_v4()).copied().collect()
    }

    /// Whether the address is in the range of any node.
    #[must_use]
    pub fn is_in_a_range(&self, ip: Addr) -> bool {
        let mut ranges = self.listed.nodes.iter().flat_map(|node| &node.pod_cidrs);
        ranges.any(|range| range.contains(ip))
    }

    fn most_are_in_ranges(&self) -> bool {
        let (mut inside, mut outside) = (0, 0);
        for pod in self.listed.pods.iter().filter(|pod| !pod.host_network) {
            for ip in &pod.ips {
                let ranges = self.ranges(pod, *ip);
                let within = ranges.iter().any(|range| range.contains(*ip));
                *(if within { &mut inside } else { &mut outside }) += usize::from(!ranges.is_empty());
            }
        }
        inside > outside
    }
}

/// An agent that was shown the lists once. It judges nothing.
fn agent(listed: &Listed) -> State {
    let mut state = State::new(Settings { node: String::new(), ipam: Ipam::Auto, ranges: Ranges::default() });
    let Listed { slices, services, pods, nodes } = listed;
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

/// The slice as an agent reads it. Which pods are a Service's own depends on no port, so it has any.
fn decided_by(slice: &ListedSlice) -> Slice {
    let endpoint = |endpoint: &ListedEndpoint| {
        let target = endpoint.target.as_ref();
        SliceEndpoint {
            ip: endpoint.ip,
            target: target.and_then(|target| target.uid),
            target_name: target.map(|target| PodName::new(&target.name.0, &target.name.1)),
            ready: endpoint.ready,
        }
    };
    Slice {
        name: slice.name.clone(),
        service: slice.service.clone(),
        endpoints: slice.endpoints.iter().map(endpoint).collect(),
        partial: false,
        foreign: slice.managed_by.as_deref() != Some(Slice::CONTROLLER),
        ports: vec![SlicePort { name: PortName::new(""), port: 1, protocol: Protocol::Tcp }],
        triggered: None,
    }
}

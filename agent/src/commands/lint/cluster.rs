//! The objects of the API at one moment, indexed for the checks.

use epguard_common::{Addr, Uid, UidState};
use epguard_core::facts::{Cidr, ListedSlice, Name, Node, Pod, Service};
use std::collections::{BTreeMap, HashMap};

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
    services: BTreeMap<&'a Name, &'a Service>,
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
        let Listed {
            services,
            pods,
            nodes,
            ..
        } = listed;
        let mut by_ip: BTreeMap<Addr, Vec<&Pod>> = BTreeMap::new();
        for pod in pods {
            for ip in pod.addresses() {
                by_ip.entry(ip).or_default().push(pod);
            }
        }
        let mut cluster = Self {
            listed,
            services: services.iter().map(|service| (&service.name, service)).collect(),
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
    pub fn service(&self, name: &Name) -> Option<&'a Service> {
        self.services.get(name).copied()
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

    /// Addresses that several pods have as their pod IP; further networks may overlap.
    pub fn shared(&self) -> impl Iterator<Item = (Addr, Vec<&'a Pod>)> {
        self.by_ip.keys().filter_map(|ip| {
            let holders: Vec<&Pod> = self.holders(*ip).filter(|pod| pod.ips.contains(ip)).collect();
            (holders.len() > 1).then_some((*ip, holders))
        })
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

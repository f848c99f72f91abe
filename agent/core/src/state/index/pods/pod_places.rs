//! The pods by the IPs that they show, and by node.

use super::Record;
use crate::facts::{Selection, Text};
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Where pods are.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct PodPlaces {
    /// By IP; those first that show it as their pod IP, since a client that may annotate pods can add many others.
    claimants: SortedMap<(Addr, bool, Uid), ()>,
    /// How many of them show each IP of the nodes' own networks.
    host_network: HashMap<Addr, u32>,
    /// IPs that several of them show.
    shared: BTreeSet<Addr>,
    /// Pods that the API shows, by namespace.
    in_namespaces: HashMap<Text, HashSet<Uid>>,
    /// The same by node.
    on_nodes: HashMap<Text, HashSet<Uid>>,
    /// Possible holders by namespace.
    possible_holders: BTreeMap<Text, BTreeSet<Uid>>,
}

impl PodPlaces {
    /// Pods that the API shows and that show the IP on any network.
    pub(in crate::state) fn claimants(&self, ip: Addr) -> impl Iterator<Item = Uid> {
        let from = self.claims_from(ip);
        from.take_while(move |(own, _)| *own == ip).map(|(_, uid)| uid)
    }

    /// The same for all IPs from this one on.
    pub(in crate::state) fn claims_from(&self, ip: Addr) -> impl Iterator<Item = (Addr, Uid)> {
        let from = self.claimants.from((ip, false, Uid::NONE));
        from.map(|((ip, _, uid), ())| (*ip, *uid))
    }

    /// IPs that several pods show.
    pub(in crate::state) fn shared(&self) -> impl Iterator<Item = Addr> {
        self.shared.iter().copied()
    }

    /// True if a pod shows the IP as one of its node's.
    pub(in crate::state) fn is_of_host_network(&self, ip: Addr) -> bool {
        self.host_network.contains_key(&ip)
    }

    pub(in crate::state) fn possible_holders(&self) -> impl Iterator<Item = &Uid> {
        self.possible_holders.values().flatten()
    }

    pub(in crate::state) fn possible_holders_in(&self, namespace: &str) -> impl Iterator<Item = &Uid> {
        self.possible_holders.get(namespace).into_iter().flatten()
    }

    /// Pods of a node that the API shows.
    pub(in crate::state) fn on_node(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.on_nodes.get(node).into_iter().flatten()
    }

    /// Pods that the API shows in the namespace or on the node of a selection: those that it matches, and others.
    pub(in crate::state) fn around(&self, selection: &Selection) -> impl Iterator<Item = &Uid> {
        let (namespace, node) = match selection {
            Selection::OnNode(node) | Selection::Labelled { node: Some(node), .. } => {
                (None, self.on_nodes.get(node))
            }
            Selection::Labelled { namespace, .. } | Selection::Named((namespace, _)) => {
                (self.in_namespaces.get(namespace), None)
            }
            Selection::SlicesOf { .. } => (None, None),
        };
        namespace.into_iter().flatten().chain(node.into_iter().flatten())
    }

    pub(in crate::state) fn add(&mut self, record: &Record) {
        let (uid, pod) = (record.pod.uid, &record.pod);
        if record.present {
            let namespace = self.in_namespaces.entry(pod.name.0.clone());
            namespace.or_default().insert(uid);
            if let Some(node) = &pod.node {
                self.on_nodes.entry(node.clone()).or_default().insert(uid);
            }
        }
        if pod.host_network {
            for ip in pod.ips.iter().filter(|_| record.present) {
                *self.host_network.entry(*ip).or_default() += 1;
            }
            return;
        }
        for ip in claimed(record) {
            self.claimants.insert((ip, !pod.ips.contains(&ip), uid), ());
            if self.claimants(ip).nth(1).is_some() {
                self.shared.insert(ip);
            }
        }
        if record.is_possible_holder() {
            let holders = self.possible_holders.entry(pod.name.0.clone());
            holders.or_default().insert(uid);
        }
    }

    pub(in crate::state) fn remove(&mut self, record: &Record) {
        let (uid, pod) = (record.pod.uid, &record.pod);
        if let Some(namespace) = self.in_namespaces.get_mut(&pod.name.0) {
            namespace.remove(&uid);
            if namespace.is_empty() {
                self.in_namespaces.remove(&pod.name.0);
            }
        }
        if let Some((node, on_node)) = pod
            .node
            .as_ref()
            .and_then(|node| Some((node, self.on_nodes.get_mut(node)?)))
        {
            on_node.remove(&uid);
            if on_node.is_empty() {
                self.on_nodes.remove(node);
            }
        }
        if pod.host_network {
            for ip in pod.ips.iter().filter(|_| record.present) {
                if let Some(count) = self.host_network.get_mut(ip) {
                    *count -= 1;
                    if *count == 0 {
                        self.host_network.remove(ip);
                    }
                }
            }
            return;
        }
        for ip in claimed(record) {
            self.claimants.remove(&(ip, !pod.ips.contains(&ip), uid));
            if self.claimants(ip).nth(1).is_none() {
                self.shared.remove(&ip);
            }
        }
        if let Some(holders) = self.possible_holders.get_mut(&pod.name.0) {
            holders.remove(&uid);
            if holders.is_empty() {
                self.possible_holders.remove(&pod.name.0);
            }
        }
    }
}

/// The IPs that a pod holds according to the API: none before a node has taken it, even if its annotations show some.
fn claimed(record: &Record) -> impl Iterator<Item = Addr> {
    let holds = record.present && record.pod.node.is_some();
    record.pod.addresses().filter(move |_| holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Pod;

    fn record(number: u8, namespace: &str, node: &str) -> Record {
        Record {
            pod: Pod {
                uid: Uid { octets: [number; 16] },
                name: (namespace.into(), number.to_string().into()),
                node: Some(node.into()),
                host_network: number == 1,
                ..Pod::default()
            },
            present: true,
            ..Record::default()
        }
    }

    #[test]
    fn a_narrow_list_is_compared_with_the_pods_of_its_namespace_or_node_only() {
        let records: Vec<Record> = [("shop", "n1"), ("shop", "n2"), ("other", "n1")]
            .into_iter()
            .zip(1..)
            .map(|((namespace, node), number)| record(number, namespace, node))
            .collect();
        let mut places = PodPlaces::default();
        for record in &records {
            places.add(record);
        }
        let labelled = |node: Option<&str>| Selection::Labelled {
            namespace: "shop".into(),
            selector: [("app", "web")].into_iter().collect(),
            node: node.map(Into::into),
        };
        let around = |places: &PodPlaces, selection| -> BTreeSet<u8> {
            places.around(&selection).map(|uid| uid.octets[0]).collect()
        };
        let named = || Selection::Named(("other".into(), "3".into()));
        let on_node = || Selection::OnNode("n1".into());
        assert_eq!(around(&places, labelled(None)), BTreeSet::from([1, 2]));
        assert_eq!(around(&places, labelled(Some("n2"))), BTreeSet::from([2]));
        assert_eq!(around(&places, named()), BTreeSet::from([3]));
        assert_eq!(around(&places, on_node()), BTreeSet::from([1, 3]));
        for record in &records {
            places.remove(record);
        }
        assert_eq!(around(&places, labelled(None)), BTreeSet::new());
        assert_eq!((places.in_namespaces.len(), places.on_nodes.len()), (0, 0));
    }
}

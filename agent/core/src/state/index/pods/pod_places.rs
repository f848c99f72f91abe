//! The pods by the IPs that they show, and by node.

use super::Record;
use crate::counts::{Counts, Groups, uncount, ungroup};
use crate::facts::{ObjectName, Selection, Text};
use crate::sorted_map::SortedMap;
use epguard_common::{Addr, Uid, UidState};
use std::collections::{BTreeSet, HashSet};

/// Where pods are.
#[derive(Debug, Clone, Default)]
pub struct PodPlaces {
    /// By IP; those first that show it as their pod IP, since a client that may annotate pods can
    /// add many others.
    claimants: SortedMap<(Addr, bool, Uid), ()>,
    /// How many of them show each IP of the nodes' own networks.
    pub host_network: Counts<Addr>,
    /// IPs that several of them show.
    pub shared: BTreeSet<Addr>,
    /// Pods that the API shows, by namespace.
    in_namespaces: Groups<Text, Uid>,
    /// The same by node.
    pub on_nodes: Groups<Text, Uid>,
    /// Pods that are terminating, or have ended.
    pub leaving: HashSet<Uid>,
    /// Possible holders by namespace.
    pub possible_holders: Groups<Text, Uid>,
    /// How many live pods of a namespace show IPs of one family only; true: of IPv4.
    of_one_family: Counts<(Text, bool)>,
    /// Pods that have ended, by name.
    ended: Groups<ObjectName, Uid>,
}

impl PodPlaces {
    /// Pods that the API shows and that show the IP on any network.
    pub fn claimants(&self, ip: Addr) -> impl Iterator<Item = Uid> {
        let from = self.claims_from(ip);
        from.take_while(move |(own, _)| *own == ip)
            .map(|(_, uid)| uid)
    }

    /// The same for all IPs from this one on.
    pub fn claims_from(&self, ip: Addr) -> impl Iterator<Item = (Addr, Uid)> {
        let from = self.claimants.from((ip, false, Uid::NONE));
        from.map(|((ip, _, uid), ())| (*ip, *uid))
    }

    /// Pods that the API shows in the namespace or on the node of a selection: those that it
    /// matches, and others.
    pub fn around(&self, selection: &Selection) -> impl Iterator<Item = &Uid> {
        let (namespace, node) = match selection {
            Selection::OnNode(node)
            | Selection::Labelled {
                node: Some(node), ..
            } => (None, Some(node)),
            Selection::Labelled { namespace, .. } => (Some(namespace), None),
            Selection::SlicesOf { .. } => (None, None),
        };
        let in_namespace = namespace.and_then(|name| self.in_namespaces.get(name));
        in_namespace
            .into_iter()
            .chain(node.and_then(|name| self.on_nodes.get(name)))
            .flatten()
    }

    /// How many pods of a namespace the API shows.
    pub fn count_in(&self, namespace: &str) -> usize {
        self.in_namespaces.get(namespace).map_or(0, BTreeSet::len)
    }

    /// The pods of a namespace, if some of them show IPs of this family only: `is_v4`, or IPv6.
    /// Nearly always there are none, or only one family is in use.
    pub fn of_one_family(&self, namespace: &str, is_v4: bool) -> impl Iterator<Item = &Uid> {
        let has_some = self.has_of_one_family(namespace, is_v4);
        let pods = if has_some {
            self.in_namespaces.get(namespace)
        } else {
            None
        };
        pods.into_iter().flatten()
    }

    /// True if a live pod of the namespace shows IPs of this family only.
    pub fn has_of_one_family(&self, namespace: &str, is_v4: bool) -> bool {
        self.of_one_family
            .contains_key(&(Text::from(namespace), is_v4))
    }

    /// Pods of a namespace that the API shows, or that have ended; some twice.
    pub fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Uid> {
        let ended = self.ended.range(ObjectName::first_of(namespace)..);
        let ended = ended
            .take_while(move |(pod, _)| pod.namespace == namespace)
            .flat_map(|(_, pods)| pods);
        self.in_namespaces
            .get(namespace)
            .into_iter()
            .flatten()
            .chain(ended)
    }

    /// Pods of this name that have ended.
    pub fn ended(&self, name: &ObjectName) -> impl Iterator<Item = Uid> {
        self.ended.get(name).into_iter().flatten().copied()
    }

    pub fn add(&mut self, record: &Record) {
        let pod = &record.pod;
        let uid = pod.uid;
        if record.present {
            self.in_namespaces
                .entry(pod.name.namespace.clone())
                .or_default()
                .insert(uid);
            if let Some(node) = pod.node.clone() {
                self.on_nodes.entry(node).or_default().insert(uid);
            }
        }
        for ip in of_host_network(record) {
            *self.host_network.entry(ip).or_default() += 1;
        }
        for ip in claimed(record) {
            self.claimants.insert((ip, !pod.ips.contains(&ip), uid), ());
            if self.claimants(ip).nth(1).is_some() {
                self.shared.insert(ip);
            }
        }
        let states = [record.uid_state, pod.uid_state];
        if pod.deleting || states != [UidState::Live; 2] {
            self.leaving.insert(uid);
        }
        if record.is_possible_holder() {
            self.possible_holders
                .entry(pod.name.namespace.clone())
                .or_default()
                .insert(uid);
        }
        if let Some(is_v4) = record.only_family() {
            *self
                .of_one_family
                .entry((pod.name.namespace.clone(), is_v4))
                .or_default() += 1;
        }
        if record.uid_state != UidState::Live {
            self.ended.entry(pod.name.clone()).or_default().insert(uid);
        }
    }

    pub fn remove(&mut self, record: &Record) {
        let pod = &record.pod;
        let uid = pod.uid;
        ungroup(&mut self.in_namespaces, &pod.name.namespace, &uid);
        if let Some(node) = &pod.node {
            ungroup(&mut self.on_nodes, node, &uid);
        }
        for ip in of_host_network(record) {
            uncount(&mut self.host_network, &ip, 1);
        }
        for ip in claimed(record) {
            self.claimants.remove(&(ip, !pod.ips.contains(&ip), uid));
            if self.claimants(ip).nth(1).is_none() {
                self.shared.remove(&ip);
            }
        }
        self.leaving.remove(&uid);
        ungroup(&mut self.possible_holders, &pod.name.namespace, &uid);
        if let Some(is_v4) = record.only_family() {
            uncount(
                &mut self.of_one_family,
                &(pod.name.namespace.clone(), is_v4),
                1,
            );
        }
        ungroup(&mut self.ended, &pod.name, &uid);
    }
}

/// The IPs of its node that a pod shows.
fn of_host_network(record: &Record) -> impl Iterator<Item = Addr> {
    let shows = record.present && record.pod.host_network;
    record.pod.ips.iter().copied().filter(move |_| shows)
}

/// The IPs that a pod holds according to the API: none before a node has taken it, even if its
/// annotations show some.
fn claimed(record: &Record) -> impl Iterator<Item = Addr> {
    let holds = record.present && record.pod.node.is_some() && !record.pod.host_network;
    record.pod.addresses().filter(move |_| holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Pod;

    fn record(number: u8, namespace: &str, node: &str) -> Record {
        Record {
            pod: Pod {
                uid: Uid {
                    octets: [number; 16],
                },
                name: ObjectName::new(namespace, number.to_string()),
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
        let on_node = || Selection::OnNode("n1".into());
        assert_eq!(around(&places, labelled(None)), BTreeSet::from([1, 2]));
        assert_eq!(around(&places, labelled(Some("n2"))), BTreeSet::from([2]));
        assert_eq!(around(&places, on_node()), BTreeSet::from([1, 3]));
        for record in &records {
            places.remove(record);
        }
        assert_eq!(around(&places, labelled(None)), BTreeSet::new());
        assert_eq!((places.in_namespaces.len(), places.on_nodes.len()), (0, 0));
    }
}

//! The lists that show all that a stopped denial rests on.

use super::second_list::{ReceivedList, SecondList};
use super::stopped::Awaited;
use crate::facts::{ObjectName, Selection, Selector, Text, Watched};
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::{Addr, Uid};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// The pods of a Service with more endpoints than this, or of a namespace with more pods, are
/// listed by node, where nodes have ranges.
const MANY: usize = 100;

/// The lists on which the denials of one Service rest. One denial takes as much work as there are
/// targets at its IP.
pub struct EvidenceLists<'a> {
    cluster: &'a ClusterIndex,
    service: &'a ObjectName,
    selector: Option<&'a Selector>,
    /// The namespaces whose pods are all the Service's own; none where its selector proves which
    /// pods are.
    namespaces: &'a [Text],
    has_many: OnceCell<bool>,
    /// The lists of pods, by IP: many endpoints may be at one.
    pods: RefCell<BTreeMap<Addr, Vec<Selection>>>,
}

impl<'a> EvidenceLists<'a> {
    /// The evidence for the denials of a Service.
    pub fn new(cluster: &'a ClusterIndex, name: &'a ObjectName) -> Self {
        let service = cluster.service(name);
        Self {
            cluster,
            service: name,
            selector: service.and_then(|service| service.selector.as_ref()),
            namespaces: service.map_or(&[], |service| cluster.namespaces_of_own(service)),
            has_many: OnceCell::new(),
            pods: RefCell::default(),
        }
    }

    /// The lists of the awaited collections that show what a denial at the IP rests on: narrow ones
    /// where it rests on a part, else one of everything.
    pub fn lists_at(&self, ip: Addr, awaited: Awaited) -> Vec<SecondList> {
        let mut lists = Vec::new();
        for kind in awaited.into_iter().flatten() {
            let selections = match kind {
                Watched::Pods => self
                    .pods
                    .borrow_mut()
                    .entry(ip)
                    .or_insert_with(|| self.pods_at(ip))
                    .clone(),
                Watched::EndpointSlices => vec![Selection::slices_of(self.service)],
                _ => Vec::new(),
            };
            if selections.is_empty() {
                lists.push(SecondList::of_everything(kind));
            }
            for selection in selections {
                lists.push(SecondList {
                    kind,
                    selection: Some(selection),
                });
            }
        }
        lists
    }

    /// True if the list shows the pod alive. It has been applied.
    pub fn shows_alive(&self, list: &ReceivedList, uid: Uid) -> bool {
        if list.kind != Watched::Pods {
            return false;
        }
        let Some(record) = self.cluster.pods.get(uid) else {
            return false;
        };
        let includes_it = match &list.part {
            Some(part) => part.has_pod(&record.pod),
            None => true,
        };
        record.is_live() && includes_it
    }

    /// False if none of the lists at the IP is this one. It takes no more work than a look at the
    /// targets there.
    pub fn may_include(&self, ip: Addr, list: &ReceivedList) -> bool {
        match &list.part {
            None => true,
            Some(Selection::SlicesOf {
                namespace,
                services,
            }) => *namespace == self.service.namespace && services.contains(&self.service.name),
            Some(Selection::Labelled {
                namespace,
                selector,
                node,
            }) => {
                let is_of_selector =
                    *namespace == self.service.namespace && self.selector == Some(selector);
                let mut meant = self.meant_at(ip);
                (is_of_selector || self.namespaces.contains(namespace))
                    && (node.is_none() || meant.any(|record| record.pod.node == *node))
            }
            Some(Selection::OnNode(_)) => false,
        }
    }

    /// All pods that are the Service's own, by selector or namespace: those that its slices name at
    /// the IP are among them.
    fn pods_at(&self, ip: Addr) -> Vec<Selection> {
        let node = self.only_node_at(ip);
        let mut selections = Vec::new();
        for namespace in self.namespaces {
            selections.push(Selection::Labelled {
                namespace: namespace.clone(),
                selector: Selector::default(),
                node: node.clone(),
            });
        }
        if let Some(selector) = self.selector
            && !self.namespaces.contains(&self.service.namespace)
        {
            selections.push(Selection::Labelled {
                namespace: self.service.namespace.clone(),
                selector: selector.clone(),
                node,
            });
        }
        selections
    }

    /// The pods that slices name at the IP, on any port.
    fn meant_at(&self, ip: Addr) -> impl Iterator<Item = &'a Record> {
        let cluster = self.cluster;
        let endpoints = cluster.endpoint_index.endpoints_at(self.service, ip);
        let uids = endpoints.flat_map(|(_, targets)| targets.keys()).flatten();
        uids.filter_map(|uid| cluster.pods.get(uid))
    }

    /// The node of the pods that were meant, if the IP is in its range and there are so many pods
    /// that only those of a node are listed.
    fn only_node_at(&self, ip: Addr) -> Option<Text> {
        let mut nodes = self.meant_at(ip).map(|record| record.pod.node.as_ref());
        let node = nodes.next()??;
        let is_only_one = nodes.all(|other| other == Some(node));
        if is_only_one && self.cluster.hands_out(node, ip) && self.has_many() {
            Some(node.clone())
        } else {
            None
        }
    }

    fn has_many(&self) -> bool {
        *self.has_many.get_or_init(|| {
            self.cluster.endpoint_index.has_more_ips(self.service, MANY)
                || self
                    .namespaces
                    .iter()
                    .any(|namespace| self.cluster.pods.count_in(namespace) > MANY)
        })
    }
}

//! The lists that show all that a pending denial rests on.

use super::opinions::{Opinion, ReceivedList};
use super::pending::Waits;
use crate::facts::{ObjectName, Selection, Selector, Text, Watched};
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::{Addr, Uid};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// The pods of a Service with more endpoints than this, or of a namespace with more pods, are
/// listed by node, where nodes have ranges.
const MANY: usize = 100;

/// What the denials of one Service rest on. One of them takes as much work as there are targets at
/// its IP.
pub struct Needs<'a> {
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

impl<'a> Needs<'a> {
    pub fn new(cluster: &'a ClusterIndex, service: &'a ObjectName) -> Self {
        let known = cluster.service(service);
        Self {
            cluster,
            service,
            selector: known.and_then(|known| known.selector.as_ref()),
            namespaces: known.map_or(&[], |known| cluster.namespaces_of_own(known)),
            has_many: OnceCell::new(),
            pods: RefCell::default(),
        }
    }

    /// The lists of the collections in `waits` that show what a denial at the IP rests on: narrow
    /// ones where it rests on a part, else one of everything.
    pub fn at(&self, ip: Addr, waits: Waits) -> Vec<Opinion> {
        let mut needs = Vec::new();
        for kind in waits.into_iter().flatten() {
            let narrow = match kind {
                Watched::Pods => {
                    let mut known = self.pods.borrow_mut();
                    known.entry(ip).or_insert_with(|| self.pods(ip)).clone()
                }
                Watched::EndpointSlices => vec![Selection::slices_of(self.service)],
                _ => vec![],
            };
            let opinion = |selection| Opinion { kind, selection };
            if narrow.is_empty() {
                needs.push(opinion(None));
            }
            needs.extend(narrow.into_iter().map(Some).map(opinion));
        }
        needs
    }

    /// True if the list shows the pod alive. It has been applied.
    pub fn shows_alive(&self, list: &ReceivedList, pod: Uid) -> bool {
        let includes = |record: &Record| {
            list.part
                .as_ref()
                .is_none_or(|part| part.has_pod(&record.pod))
        };
        let alive = self.cluster.pods.get(pod).filter(|record| record.is_live());
        list.kind == Watched::Pods && alive.is_some_and(includes)
    }

    /// False if none of the lists at the IP is this one; it takes no more than a look at the
    /// targets there.
    pub fn may_include(&self, ip: Addr, list: &ReceivedList) -> bool {
        let mut pods = self.targets(ip).map(|record| &record.pod);
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
                let is_own =
                    *namespace == self.service.namespace && self.selector == Some(selector);
                (is_own || self.namespaces.contains(namespace))
                    && (node.is_none() || pods.any(|pod| pod.node == *node))
            }
            Some(Selection::OnNode(_)) => false,
        }
    }

    /// All pods that are the Service's own, by selector or namespace: those that its slices name at
    /// the IP are among them.
    fn pods(&self, ip: Addr) -> Vec<Selection> {
        let node = self.node(ip);
        let of = |namespace: &Text, selector: Selector| Selection::Labelled {
            namespace: namespace.clone(),
            selector,
            node: node.clone(),
        };
        let mut selections: Vec<Selection> = self
            .namespaces
            .iter()
            .map(|namespace| of(namespace, Selector::default()))
            .collect();
        if let Some(selector) = self.selector
            && !self.namespaces.contains(&self.service.namespace)
        {
            selections.push(of(&self.service.namespace, selector.clone()));
        }
        selections
    }

    /// The pods that slices name at the IP, on any port.
    fn targets(&self, ip: Addr) -> impl Iterator<Item = &'a Record> {
        let cluster = self.cluster;
        let sockets = cluster.endpoint_index.at(self.service, ip);
        let uids = sockets.flat_map(|(_, targets)| targets.keys()).flatten();
        uids.filter_map(|uid| cluster.pods.get(uid))
    }

    /// The node of the pods that were meant, if the IP is in its range and there are so many pods
    /// that only those of a node are listed.
    fn node(&self, ip: Addr) -> Option<Text> {
        let mut nodes = self.targets(ip).map(|record| record.pod.node.as_ref());
        let node = nodes.next()??;
        let is_only_one = nodes.all(|other| other == Some(node));
        let hands_out = self.cluster.hands_out(node, ip);
        (is_only_one && hands_out && self.has_many()).then(|| node.clone())
    }

    fn has_many(&self) -> bool {
        *self.has_many.get_or_init(|| {
            let is_large = |namespace: &Text| self.cluster.pods.count_in(namespace) > MANY;
            self.cluster.endpoint_index.has_more_ips(self.service, MANY)
                || self.namespaces.iter().any(is_large)
        })
    }
}

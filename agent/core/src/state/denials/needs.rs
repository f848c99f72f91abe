//! The lists that show all that a pending denial rests on.

use super::opinions::{Opinion, ReceivedList};
use super::pending::Waits;
use crate::facts::{Name, Selection, Selector, Text, Watched};
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::{Addr, Uid};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// A Service with more endpoints than this has its pods listed by node, where nodes have ranges.
const MANY: usize = 100;

/// What the denials of one Service rest on. One of them takes as much work as there are targets at its IP.
pub struct Needs<'a> {
    cluster: &'a ClusterIndex,
    service: &'a Name,
    selector: Option<&'a Selector>,
    /// Whether the selector does not tell which pods are the Service's own.
    proves_nothing: bool,
    has_many: OnceCell<bool>,
    /// The lists of pods, by IP: many endpoints may be at one.
    pods: RefCell<BTreeMap<Addr, Vec<Selection>>>,
}

impl<'a> Needs<'a> {
    pub fn new(cluster: &'a ClusterIndex, service: &'a Name) -> Self {
        let known = cluster.service(service);
        Self {
            cluster,
            service,
            selector: known.and_then(|known| known.selector.as_ref()),
            proves_nothing: known.is_some_and(|known| cluster.proves_nothing(known)),
            has_many: OnceCell::new(),
            pods: RefCell::default(),
        }
    }

    /// The lists of the collections in `waits` that show what a denial at the IP rests on: narrow ones where it rests on a
    /// part, else one of everything.
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
        let includes = |record: &Record| list.part.as_ref().is_none_or(|part| part.has_pod(&record.pod));
        let alive = self.cluster.pods.get(pod).filter(|record| record.is_live());
        list.kind == Watched::Pods && alive.is_some_and(includes)
    }

    /// False if none of the lists at the IP is this one; it takes no more than a look at the targets there.
    pub fn may_include(&self, ip: Addr, list: &ReceivedList) -> bool {
        let mut pods = self.targets(ip).map(|record| &record.pod);
        match &list.part {
            None => true,
            Some(slices @ Selection::SlicesOf { .. }) => slices.covers(&Selection::slices_of(self.service)),
            Some(Selection::Labelled { namespace, selector, node }) => {
                let is_own = self.selector == Some(selector) || self.proves_nothing;
                *namespace == self.service.0
                    && is_own
                    && (node.is_none() || pods.any(|pod| pod.node == *node))
            }
            Some(Selection::Named(name)) => pods.any(|pod| pod.name == *name),
            Some(Selection::OnNode(_)) => false,
        }
    }

    /// All pods that the Service selects, and each pod that its slices name at the IP. Where the selector proves nothing, all pods of
    /// the namespace, if those of a workload stand in for a named one: no label tells which they are.
    fn pods(&self, ip: Addr) -> Vec<Selection> {
        let targets = self.targets(ip).map(|record| (record.pod.uid, record));
        let targets: BTreeMap<Uid, &Record> = targets.collect();
        let may_have_stand_ins =
            |record: &&Record| record.pod.workload.is_some() || record.pod.name.1.is_empty();
        let selector = if self.proves_nothing && targets.values().any(may_have_stand_ins) {
            Some(Selector::default())
        } else {
            self.selector.cloned()
        };
        let selected = selector.map(|selector| Selection::Labelled {
            namespace: self.service.0.clone(),
            selector,
            node: self.node(ip, &targets),
        });
        let mut selections: Vec<Selection> = selected.into_iter().collect();
        for pod in targets.values().map(|record| &record.pod) {
            let is_covered = selections.first().is_some_and(|selected| selected.has_pod(pod));
            if !is_covered && !pod.name.1.is_empty() {
                selections.push(Selection::Named(pod.name.clone()));
            }
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

    /// The node of the pods that were meant, if the IP is in its range and the Service has so many pods that only those of a node are
    /// listed.
    fn node(&self, ip: Addr, targets: &BTreeMap<Uid, &Record>) -> Option<Text> {
        let index = &self.cluster.endpoint_index;
        let mut nodes = targets.values().map(|record| record.pod.node.as_ref());
        let node = nodes.next()??;
        let has_many = || *self.has_many.get_or_init(|| index.has_more_ips(self.service, MANY));
        let is_only_one = nodes.all(|other| other == Some(node));
        let hands_out = self.cluster.hands_out(node, ip);
        (is_only_one && has_many() && hands_out).then(|| node.clone())
    }
}

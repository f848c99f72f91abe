//! All Nodes, and what pods need to know of their Node once it is gone.

use super::addresses::Addresses;
use super::former::MEMORY;
use super::incarnation::Incarnation;
use super::pods::Kubelet;
use super::range_owners::RangeOwners;
use crate::facts::{Node, NodeSeen, Text};
use epguard_common::Addr;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// All Nodes.
#[derive(Debug, Clone, Default)]
pub struct NodeIndex {
    shown: HashMap<Text, ShownNode>,
    /// Nodes that are gone, for [`MEMORY`]: when, and whether each was a virtual kubelet.
    gone: HashMap<Text, (Duration, bool)>,
    /// Addresses of Nodes.
    addresses: Addresses,
    ranges: RangeOwners,
    /// When a pod last contradicted the ranges of a Node.
    strayed: HashMap<Text, Duration>,
    last: Incarnation,
}

#[derive(Debug, Clone)]
struct ShownNode {
    node: Node,
    incarnation: Incarnation,
    /// When it was there for certain.
    seen: Duration,
}

impl NodeIndex {
    /// The Node of a name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.shown.get(name).map(|shown| &shown.node)
    }

    /// All Nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.shown.values().map(|shown| &shown.node)
    }

    /// The names of all Nodes.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.shown.keys()
    }

    /// True if there is no Node.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// How many nodes there are, or were within [`MEMORY`].
    pub fn count(&self) -> usize {
        self.shown.len() + self.gone.len()
    }

    /// The Nodes with a range that contains the IP.
    pub fn with_range_of(&self, ip: Addr) -> impl Iterator<Item = &Node> {
        let nodes = self.ranges.of(ip).filter_map(|name| self.get(name));
        nodes.filter(move |node| node.pod_cidrs.iter().any(|range| range.contains(ip)))
    }

    /// Which object the Node of a name is.
    pub fn incarnation(&self, name: &str) -> Option<Incarnation> {
        self.shown.get(name).map(|shown| shown.incarnation)
    }

    /// True if a Node shows the address, or did within [`MEMORY`].
    pub fn has_address(&self, addr: Addr) -> bool {
        self.addresses.contains(addr)
    }

    /// All such addresses.
    pub fn addresses(&self) -> impl Iterator<Item = Addr> {
        self.addresses.iter()
    }

    /// True if a pod contradicts the ranges of a Node.
    pub fn is_strayed(&self, name: &str) -> bool {
        self.strayed.contains_key(name)
    }

    /// Notes a pod that contradicts the ranges of a Node. True if none did.
    pub(super) fn stray(&mut self, now: Duration, name: Text) -> bool {
        self.strayed.insert(name, now).is_none()
    }

    /// The Nodes whose ranges no pod has contradicted for so long, though one did before.
    pub(super) fn strayed_for(&self, now: Duration, long: Duration) -> Vec<Text> {
        let old = self
            .strayed
            .iter()
            .filter(|(_, at)| now.saturating_sub(**at) >= long);
        old.map(|(name, _)| name.clone()).collect()
    }

    /// Lets the ranges of a Node count again.
    pub(super) fn believe(&mut self, name: &str) {
        self.strayed.remove(name);
    }

    /// Notes that a Node was there at a moment. Nothing if it is another object than the one that
    /// is known.
    pub fn see(&mut self, seen: &NodeSeen) {
        if let Some(shown) = self
            .shown
            .get_mut(&seen.name)
            .filter(|shown| shown.node.uid == seen.uid)
        {
            shown.seen = shown.seen.max(seen.at);
        }
    }

    /// True if the Node of a name was there at this moment or later, and is the object that is
    /// known.
    pub fn is_seen_since(&self, name: &str, moment: Duration) -> bool {
        self.shown
            .get(name)
            .is_some_and(|shown| shown.seen >= moment)
    }

    /// Whether a kubelet runs on the node, as far as the Node shows it, or showed it within
    /// [`MEMORY`].
    pub fn kubelet(&self, name: &str) -> Kubelet {
        let shown = self.get(name).map(|node| node.virtual_kubelet);
        match shown.or_else(|| self.gone.get(name).map(|(_, was_virtual)| *was_virtual)) {
            Some(true) => Kubelet::Virtual,
            Some(false) => Kubelet::Real,
            None => Kubelet::Unknown,
        }
    }

    /// Adds or replaces a Node; removes it with `None`. One that was a virtual kubelet stays one:
    /// its pods outlive the mark.
    pub(super) fn set(&mut self, now: Duration, name: &str, node: Option<Node>) {
        let before = self.shown.remove(name);
        if let Some(before) = &before {
            self.addresses.remove(now, name, &before.node.addresses);
            for range in &before.node.pod_cidrs {
                self.ranges.remove(range, &before.node.name);
            }
            self.gone
                .insert(before.node.name.clone(), (now, before.node.virtual_kubelet));
        }
        let Some(mut node) = node else { return };
        self.addresses.add(&node.addresses);
        for range in &node.pod_cidrs {
            self.ranges.add(range, &node.name);
        }
        node.virtual_kubelet |= self
            .gone
            .remove(name)
            .is_some_and(|(_, was_virtual)| was_virtual);
        let same = before.filter(|before| before.node.uid == node.uid);
        let (incarnation, seen) = match same {
            Some(same) => (same.incarnation, same.seen),
            None => (self.next(), Duration::ZERO),
        };
        self.shown.insert(
            node.name.clone(),
            ShownNode {
                node,
                incarnation,
                seen,
            },
        );
    }

    fn next(&mut self) -> Incarnation {
        self.last = self.last.successor();
        self.last
    }

    /// Forgets Nodes and addresses that are gone for [`MEMORY`]; returns them.
    pub(super) fn forget(&mut self, now: Duration) -> (BTreeSet<Text>, Vec<Addr>) {
        let is_old = |_: &Text, (at, _): &mut (Duration, bool)| now.saturating_sub(*at) >= MEMORY;
        let nodes = self.gone.extract_if(is_old).map(|(node, _)| node).collect();
        (nodes, self.addresses.forget(now))
    }

    /// Forgets what the API has shown, but not that it did.
    pub(super) fn start_over(&mut self, now: Duration) {
        let shown = std::mem::take(&mut self.shown);
        let gone = shown
            .into_iter()
            .map(|(name, shown)| (name, (now, shown.node.virtual_kubelet)));
        self.gone.extend(gone);
        self.addresses.start_over(now);
        self.ranges = RangeOwners::default();
    }
}

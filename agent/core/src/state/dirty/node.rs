//! What a change of one node concerns: its addresses, its own pods, and this node's range.

use super::Dirty;
use crate::facts::{Change, Name, Node, Service, Text};
use crate::state::ClusterIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Applies a change of nodes.
pub(super) fn update_index(cluster: &mut ClusterIndex, now: Duration, change: Change<Node>) -> Dirty {
    let mut dirty = Dirty::default();
    let changed: BTreeMap<Text, Option<Node>> = match change {
        Change::Applied(node) => BTreeMap::from([(node.name.clone(), Some(node))]),
        Change::Deleted(node) => BTreeMap::from([(node.name, None)]),
        Change::Reset(all) => {
            let gone = cluster.nodes.keys().map(|name| (name.clone(), None));
            let shown = all.into_iter().map(|node| (node.name.clone(), Some(node)));
            gone.chain(shown).collect()
        }
    };
    let mut nodes = BTreeSet::new();
    for (name, node) in changed {
        if dirty.node(cluster, now, &name, node) {
            nodes.insert(name);
        }
    }
    dirty.ended_on(cluster, &nodes);
    dirty
}

impl Dirty {
    /// True if it changed.
    fn node(&mut self, cluster: &mut ClusterIndex, now: Duration, name: &str, node: Option<Node>) -> bool {
        let before = cluster.node(name).cloned();
        if before == node {
            return false;
        }
        let zone = |node: &Option<Node>| node.as_ref().and_then(|node| node.zone.clone());
        if zone(&before) != zone(&node) {
            let redirects = |name: &&Name| cluster.service(name).is_some_and(Service::redirects);
            self.vips(cluster.stale.services().filter(redirects));
        }
        if name == cluster.settings.node {
            self.own_range(cluster);
        }
        let both = before.iter().chain(&node);
        let addresses: Vec<_> = both.flat_map(|node| node.addresses.iter().copied()).collect();
        cluster.set_node(now, name, node);
        self.addresses(cluster, addresses);
        if name == cluster.settings.node {
            // It answers NodePorts on its addresses.
            self.vips(cluster.stale.services());
            cluster.note_strays(now);
            self.own_range(cluster);
            // Their deaths prove something from now on.
            let dead = cluster.pods.dead_on(name).map(|record| record.pod.uid);
            self.pods.extend(dead);
        }
        true
    }

    /// Adds the pairs that name an ended pod of one of the nodes.
    pub fn ended_on(&mut self, cluster: &ClusterIndex, nodes: &BTreeSet<Text>) {
        if !nodes.is_empty() {
            self.pairs(cluster.stale_of_nodes(nodes));
        }
    }
}

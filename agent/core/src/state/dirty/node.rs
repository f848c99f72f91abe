//! What a change of one node concerns: its own range, its own pods, and its addresses.

use super::Dirty;
use crate::facts::{Change, Node, Text};
use crate::state::ClusterIndex;
use std::collections::BTreeMap;
use std::time::Duration;

/// Applies a change of nodes.
pub(super) fn absorb(cluster: &mut ClusterIndex, now: Duration, change: Change<Node>) -> Dirty {
    let (mut dirty, mut listed_anew) = (Dirty::default(), false);
    let changed: BTreeMap<Text, Option<Node>> = match change {
        Change::Applied(node) => BTreeMap::from([(node.name.clone(), Some(node))]),
        Change::Deleted(node) => BTreeMap::from([(node.name, None)]),
        Change::Reset(all) => {
            listed_anew = cluster.note_node_list(now, &all);
            let gone = cluster.node_names().map(|name| (name.clone(), None));
            let shown = all.into_iter().map(|node| (node.name.clone(), Some(node)));
            gone.chain(shown).collect()
        }
    };
    for (name, node) in changed {
        dirty.node(cluster, now, &name, node);
    }
    if listed_anew {
        dirty.everything = true;
        cluster.learn_all(now);
        cluster.index_all_stale();
    }
    dirty
}

impl Dirty {
    fn node(&mut self, cluster: &mut ClusterIndex, now: Duration, name: &str, node: Option<Node>) {
        let before = cluster.node(name).cloned();
        if before == node {
            return;
        }
        let ranges = |node: &Option<Node>| node.as_ref().map_or(Vec::new(), |node| node.pod_cidrs.clone());
        let zone = |node: &Option<Node>| node.as_ref().and_then(|node| node.zone.clone());
        let (old, new) = (ranges(&before), ranges(&node));
        self.zones |= zone(&before) != zone(&node);
        let reach = |cluster: &ClusterIndex, ranges: &[_]| -> Vec<_> {
            let ranges = ranges.iter();
            ranges.map(|range| cluster.ranges_of_nodes.reach(range)).collect()
        };
        let came_or_went = before.is_none() != node.is_none();
        if came_or_went {
            self.possible_holders_on(cluster, name);
        }
        // This node answers NodePorts on its addresses.
        self.vips |= name == cluster.settings.node;
        let mut reached = reach(cluster, &old);
        let addresses = cluster.set_node(name, node);
        if came_or_went {
            self.possible_holders_on(cluster, name);
        }
        if old != new {
            reached.extend(reach(cluster, &new));
            if cluster.learn_of(now, name) {
                self.everything = true;
                cluster.index_all_stale();
            } else {
                cluster.index_stale_of(name);
            }
            let annotated = reached
                .into_iter()
                .flat_map(|range| cluster.pods.annotated(range));
            self.addresses(cluster, annotated);
        }
        self.addresses(cluster, addresses);
        self.stale_of(cluster, name);
    }

    fn stale_of(&mut self, cluster: &ClusterIndex, node: &str) {
        let stale = cluster.stale.of_node(node);
        self.pairs
            .extend(stale.map(|(service, ip)| (service.clone(), ip)));
    }

    /// Adds what the possible holders of a node can end, where other Nodes are listed: an unlisted node's can hold any IP.
    fn possible_holders_on(&mut self, cluster: &ClusterIndex, node: &str) {
        if !cluster.lists_nodes() {
            return;
        }
        for holder in cluster.pods.possible_holders_on(node) {
            self.selecting(cluster, &holder.pod);
        }
    }
}

//! Nodes of a large cluster: this node's is watched, all others are listed from time to time ([`WATCHED_NODES`](crate::facts::WATCHED_NODES)).
//!
//! What the last list may lack makes the agent more cautious, never less. On a Node that is newer than the list, pods may hold any
//! IP, and their end proves nothing: it may be a virtual kubelet. A Node that was deleted and made again under its name may have
//! another range: once a pod shows an IP outside of the known one, the range counts no more until the next list.

use super::ClusterIndex;
use crate::facts::{Node, Pod};
use epguard_common::Addr;
use std::time::Duration;

/// For so long after a list, its ranges are what they were then: a pod outside of them shows how the cluster hands out IPs.
const FRESH: Duration = Duration::from_mins(1);

impl ClusterIndex {
    /// Watches at most so many Nodes.
    pub fn watch_nodes(&mut self, most: usize) {
        self.listed_nodes.most = most;
    }

    /// Notes a list of all Nodes, before it is applied. True if all endpoints have to be judged again.
    pub(in crate::state) fn note_node_list(&mut self, now: Duration, nodes: &[Node]) -> bool {
        let lists = &mut self.listed_nodes;
        let before = lists.at.is_some();
        lists.at = (nodes.len() > lists.most).then_some(now);
        lists.seen.extend(nodes.iter().map(|node| node.name.clone()));
        let had_doubts = !lists.doubted.is_empty();
        lists.doubted.clear();
        before != lists.at.is_some() || had_doubts
    }

    /// True if other Nodes than this node's are listed from time to time.
    pub(in crate::state) const fn lists_nodes(&self) -> bool {
        self.listed_nodes.at.is_some()
    }

    /// True if the range of the node is unknown, so that its pods may hold any IP.
    #[must_use]
    pub fn is_unlisted(&self, node: &str) -> bool {
        let is_other = self.lists_nodes() && node != self.settings.node;
        is_other && (!self.nodes.contains_key(node) || self.is_doubted(node))
    }

    /// True if no list has shown the node yet, so that it may be a virtual kubelet.
    pub(in crate::state) fn is_new(&self, node: &str) -> bool {
        self.is_unlisted(node) && !self.listed_nodes.seen.contains(node)
    }

    /// True if a pod has shown an IP outside of the node's range since the last list.
    pub(in crate::state) fn is_doubted(&self, node: &str) -> bool {
        self.listed_nodes.doubted.contains(node)
    }

    /// Doubts the range of the pod's node, if the pod is outside of it and the last list is old. True if that is new.
    pub(in crate::state) fn doubt(&mut self, now: Duration, pod: &Pod) -> bool {
        let is_fresh = |at: Duration| now.saturating_sub(at) < FRESH;
        let Some(node) = pod.node.as_ref().filter(|node| ***node != *self.settings.node) else {
            return false;
        };
        let is_old = self.listed_nodes.at.is_some_and(|at| !is_fresh(at));
        is_old && !self.honours_ranges(pod) && self.listed_nodes.doubted.insert(node.clone())
    }

    /// Addresses of a node that is not listed yet, as its pods of the host's network show them: they are never judged.
    pub(in crate::state) fn addresses_of_unlisted(&mut self, pod: &Pod) -> Vec<Addr> {
        let is_unlisted = pod.node.as_deref().is_some_and(|node| self.is_unlisted(node));
        let shown = pod.ips.iter().filter(|_| pod.host_network && is_unlisted);
        shown
            .copied()
            .filter(|ip| self.infrastructure.insert(*ip))
            .collect()
    }
}

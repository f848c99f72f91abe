//! Nodes of a large cluster: this node's is watched, all others are listed from time to time ([`WATCHED_NODES`](crate::facts::WATCHED_NODES)).
//!
//! What the last list may lack makes the agent more cautious, never less. On a Node that is newer than the list, pods may hold any
//! IP, and their end proves nothing: it may be a virtual kubelet. A Node that was deleted and made again under its name may have
//! another range: once a pod shows an IP outside of the known one, no range counts until the next list. A Node that becomes a virtual
//! kubelet is one from the next list on.

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
        let after = lists.at.is_some();
        let had_strays = (before || after) && !self.strays.is_empty();
        if had_strays {
            self.strays.clear();
        }
        before != after || had_strays
    }

    /// True if other Nodes than this node's are listed from time to time.
    pub(in crate::state) const fn lists_nodes(&self) -> bool {
        self.listed_nodes.at.is_some()
    }

    /// True if the range of the node is unknown, so that its pods may hold any IP.
    #[must_use]
    pub fn is_unlisted(&self, node: &str) -> bool {
        let is_other = self.lists_nodes() && node != self.settings.node;
        is_other && !self.nodes.contains_key(node)
    }

    /// True if no list has shown the node yet, so that it may be a virtual kubelet.
    pub(in crate::state) fn is_new(&self, node: &str) -> bool {
        self.is_unlisted(node) && !self.listed_nodes.seen.contains(node)
    }

    /// True if ranges of nodes may be others than those of the last list.
    pub(in crate::state) fn ranges_are_old(&self, now: Duration) -> bool {
        let at = self.listed_nodes.at;
        at.is_some_and(|at| now.saturating_sub(at) >= FRESH)
    }

    /// Addresses of another node, as its pods of the host's network show them, where Nodes are listed: they are never judged.
    pub(in crate::state) fn addresses_of_others(&mut self, pod: &Pod) -> Vec<Addr> {
        let node = pod.node.as_deref();
        let is_other =
            self.lists_nodes() && pod.host_network && node.is_some_and(|node| node != self.settings.node);
        let shown = pod.ips.iter().filter(|_| is_other);
        shown
            .copied()
            .filter(|ip| self.infrastructure.insert(*ip))
            .collect()
    }
}

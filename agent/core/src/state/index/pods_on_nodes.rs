//! Pods and their Nodes: what a Node shows counts for the pods that ran on it once it is gone.

use super::ClusterIndex;
use crate::facts::Node;
use epguard_common::Uid;
use std::time::Duration;

impl ClusterIndex {
    /// Adds or replaces a Node; removes it with `None`.
    pub(super) fn set_node(&mut self, now: Duration, name: &str, node: Option<Node>) {
        self.nodes.set(now, name, node);
        let pods: Vec<Uid> = self
            .pods
            .shown_on(name)
            .map(|record| record.pod.uid)
            .collect();
        for uid in pods {
            self.note_node(uid);
        }
        if self.has_strays(name) {
            self.nodes.stray(now, name.into());
        }
        if name == self.settings.node {
            self.index_vips();
        }
    }

    /// Notes of a pod which Node object it runs on, and whether that has a kubelet: its death goes
    /// on proving what it proves once the Node is gone.
    pub(crate) fn note_node(&mut self, uid: Uid) {
        let Some(name) = self
            .pods
            .get(uid)
            .and_then(|record| record.pod.node.clone())
        else {
            return;
        };
        self.pods.note_node(
            uid,
            self.nodes.kubelet(&name),
            self.nodes.incarnation(&name),
        );
    }

    /// A Node's boot id; none if unknown.
    pub(crate) fn boot_id(&self, node: Option<&str>) -> Uid {
        node.and_then(|node| self.nodes.get(node))
            .map(|node| node.boot_id)
            .unwrap_or_default()
    }
}

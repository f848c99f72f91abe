//! Which node hands out which IPs (IPAM).

use super::pods::Record;
use super::{ClusterIndex, Ipam};
use crate::facts::{Pod, Text};
use epguard_common::Addr;
use std::time::Duration;

/// How long an IP outside of its node's range counts after no pod shows it any more, if pods of one namespace alone
/// have shown any: a client that may write `pods/status` can show any IP. Two namespaces disprove the ranges for good,
/// since an IPAM that hands out such IPs goes on doing so.
const STRAYS: Duration = Duration::from_hours(1);

impl ClusterIndex {
    /// Whether a node's range belongs to its pods alone, as far as the cluster has shown.
    fn ranges_count(&self) -> bool {
        match self.settings.ipam {
            Ipam::Cluster => false,
            // A range of an old list may be another one by now.
            Ipam::Node => self.strays.is_empty() || !self.lists_nodes(),
            Ipam::Auto => self.strays.is_empty() && !self.ranges_are_disproved,
        }
    }

    /// Records whether a pod shows an IP outside of its node's range. True if that changed how other pods are judged.
    pub fn learn(&mut self, now: Duration, pod: &Pod) -> bool {
        let stray = (!self.honours_ranges(pod)).then(|| pod.name.0.clone());
        self.note_strays(now, stray)
    }

    /// Records the same for all live pods of a node, after a change of the node's ranges.
    pub(in crate::state) fn learn_of(&mut self, now: Duration, node: &str) -> bool {
        let strays = self.namespaces_of_strays(self.pods.live_on(node));
        self.note_strays(now, strays)
    }

    /// Records the same for all live pods.
    pub(in crate::state) fn learn_all(&mut self, now: Duration) -> bool {
        let live = self.pods.iter().filter(|record| record.is_live());
        let strays = self.namespaces_of_strays(live);
        self.note_strays(now, strays)
    }

    fn namespaces_of_strays<'a>(&self, pods: impl Iterator<Item = &'a Record>) -> Vec<Text> {
        let strays = pods.filter(|record| !self.honours_ranges(&record.pod));
        strays.map(|record| record.pod.name.0.clone()).collect()
    }

    /// Two namespaces disprove the ranges for good, unless these may have changed since they were listed.
    fn note_strays(&mut self, now: Duration, namespaces: impl IntoIterator<Item = Text>) -> bool {
        let before = self.ranges_count();
        let namespaces = namespaces.into_iter().map(|namespace| (namespace, now));
        self.strays.extend(namespaces);
        self.ranges_are_disproved |= self.strays.len() > 1 && !self.ranges_are_old(now);
        before != self.ranges_count()
    }

    /// Uses nodes' ranges again if the only namespace that had shown an IP outside of them shows none any more. True if
    /// that changed how pods are judged.
    pub fn forget_strays(&mut self, now: Duration) -> bool {
        let is_due = |at: &Duration| now.saturating_sub(*at) >= STRAYS;
        if self.ranges_are_disproved || !self.strays.values().any(is_due) {
            return false;
        }
        let before = self.ranges_count();
        self.strays.retain(|_, at| !is_due(at));
        self.learn_all(now);
        before != self.ranges_count()
    }

    pub(in crate::state) fn honours_ranges(&self, pod: &Pod) -> bool {
        let Some(node) = pod
            .node
            .as_ref()
            .filter(|_| !pod.host_network)
            .and_then(|node| self.nodes.get(node))
        else {
            return true;
        };
        node.pod_cidrs.is_empty()
            || pod
                .ips
                .iter()
                .all(|ip| node.pod_cidrs.iter().any(|cidr| cidr.contains(*ip)))
    }

    /// True if only pods of this node can hold the IP.
    #[must_use]
    pub fn is_exclusive(&self, ip: Addr, node: Option<&str>) -> bool {
        let in_range = || {
            node.and_then(|node| self.nodes.get(node))
                .is_some_and(|node| node.pod_cidrs.iter().any(|cidr| cidr.contains(ip)))
        };
        self.ranges_count() && in_range()
    }
}

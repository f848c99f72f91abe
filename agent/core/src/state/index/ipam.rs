//! Which node hands out which IPs (IPAM).

use super::{ClusterIndex, Ipam};
use crate::facts::{Pod, Text};
use epguard_common::Addr;
use std::time::Duration;

/// How long an IP outside of its node's range counts after no pod shows it any more, if pods of one namespace alone
/// have shown any: a client that may write `pods/status` can show any IP. Two namespaces disprove the ranges for good,
/// since an IPAM that hands out such IPs goes on doing so.
const STRAYS: Duration = Duration::from_hours(1);

impl ClusterIndex {
    /// True if pods' IPs are taken to lie in their nodes' ranges.
    fn ranges_are_honoured(&self) -> bool {
        !self.ranges_are_disproved && self.strays.is_empty()
    }

    /// Records whether a pod shows an IP outside of its node's range. True if that changed how other pods are judged.
    pub fn learn(&mut self, now: Duration, pod: &Pod) -> bool {
        let before = self.ranges_are_honoured();
        if !self.honours_ranges(pod) {
            self.strays.insert(pod.name.0.clone(), now);
            self.disprove_ranges(now);
        }
        before != self.ranges_are_honoured()
    }

    /// Records the same for all live pods of a node, after a change of the node's ranges. True if that changed how other
    /// pods are judged.
    pub(in crate::state) fn learn_of(&mut self, now: Duration, node: &str) -> bool {
        let before = self.ranges_are_honoured();
        let strays = self
            .pods
            .live_on(node)
            .filter(|record| !self.honours_ranges(&record.pod));
        let namespaces: Vec<Text> = strays.map(|record| record.pod.name.0.clone()).collect();
        self.strays
            .extend(namespaces.into_iter().map(|namespace| (namespace, now)));
        self.disprove_ranges(now);
        before != self.ranges_are_honoured()
    }

    /// Two namespaces disprove the ranges for good, unless these may have changed since they were listed.
    fn disprove_ranges(&mut self, now: Duration) {
        self.ranges_are_disproved |= self.strays.len() > 1 && !self.ranges_are_old(now);
    }

    /// Records the same for all live pods.
    pub(in crate::state) fn learn_all(&mut self, now: Duration) {
        let live = self.pods.iter().filter(|record| record.is_live());
        let strays = live.filter(|record| !self.honours_ranges(&record.pod));
        let namespaces: Vec<Text> = strays.map(|record| record.pod.name.0.clone()).collect();
        self.strays
            .extend(namespaces.into_iter().map(|namespace| (namespace, now)));
        self.disprove_ranges(now);
    }

    /// Uses nodes' ranges again if the only namespace that had shown an IP outside of them shows none any more. True if
    /// that changed how pods are judged.
    pub fn forget_strays(&mut self, now: Duration) -> bool {
        let is_due = |at: &Duration| now.saturating_sub(*at) >= STRAYS;
        if self.ranges_are_disproved || !self.strays.values().any(is_due) {
            return false;
        }
        self.strays.retain(|_, at| !is_due(at));
        self.learn_all(now);
        self.ranges_are_honoured()
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
        match self.settings.ipam {
            Ipam::Cluster => false,
            Ipam::Node => in_range() && (self.strays.is_empty() || !self.lists_nodes()),
            Ipam::Auto => self.ranges_are_honoured() && in_range(),
        }
    }
}

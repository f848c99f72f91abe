//! Whether this node alone hands out the IPs of its ranges (`spec.podCIDRs`). Only `terminated` rests on that.
//!
//! Some clusters set ranges and hand out other IPs (Calico's IPAM does). A pod of this node outside of its ranges shows that, and so
//! does a pod of another node inside of them.

use super::pods::Record;
use super::{ClusterIndex, Ipam};
use crate::facts::{Cidr, Pod};
use epguard_common::{Addr, Uid};
use std::time::Duration;

/// So long after the last such pod the ranges count again: an IPAM that hands out such IPs goes on doing so, but a client that may
/// write `pods/status` can show any IP.
const STRAYS: Duration = Duration::from_hours(1);

impl ClusterIndex {
    /// True if only pods of this node can hold the IP.
    pub(crate) fn is_exclusive(&self, ip: Addr) -> bool {
        let holds = match self.settings.ipam {
            Ipam::Cluster => false,
            Ipam::Node => true,
            Ipam::Auto => self.strayed.is_none(),
        };
        holds && self.is_in_own_range(ip)
    }

    /// True if the IP is in a range of the node, and no pod contradicts the ranges of this one.
    pub(crate) fn hands_out(&self, node: &str, ip: Addr) -> bool {
        let is_believed = self.settings.ipam != Ipam::Cluster && self.strayed.is_none();
        let mut ranges = self.nodes.get(node).into_iter().flat_map(|node| &node.pod_cidrs);
        is_believed && ranges.any(|range| range.contains(ip))
    }

    /// True if the pod may hold an IP that it shows. A client that may annotate a pod can write any address: an IP that only this node
    /// hands out is not another node's.
    pub(crate) fn may_hold(&self, record: &Record, ip: Addr) -> bool {
        record.pod.ips.contains(&ip) || self.is_own(&record.pod) || !self.is_exclusive(ip)
    }

    /// True for a pod of this node.
    pub(crate) fn is_own(&self, pod: &Pod) -> bool {
        pod.node.as_deref() == Some(&*self.settings.node)
    }

    /// True if the IP is in a range of this node.
    pub(crate) fn is_in_own_range(&self, ip: Addr) -> bool {
        self.own_ranges().iter().any(|range| range.contains(ip))
    }

    /// Notes a pod that disproves the ranges. True if that changed how IPs are judged.
    pub(crate) fn note_stray(&mut self, now: Duration, uid: Uid) -> bool {
        let pod = self.pods.get(uid).filter(|record| record.is_live());
        pod.is_some_and(|record| self.is_stray(&record.pod)) && self.strayed.replace(now).is_none()
    }

    /// Lets the ranges count again if no pod has disproved them for [`STRAYS`]. True if that changed how IPs are judged.
    pub(crate) fn forget_strays(&mut self, now: Duration) -> bool {
        let is_old = self.strayed.is_some_and(|at| now.saturating_sub(at) >= STRAYS);
        if is_old {
            self.strayed = self.has_strays().then_some(now);
        }
        is_old && self.strayed.is_none()
    }

    /// The IPs of this node's ranges that pods show, with these pods.
    pub(crate) fn claims_in_own_range(&self) -> impl Iterator<Item = (Addr, &Record)> {
        let ranges = self.own_ranges().iter();
        ranges.flat_map(|range| self.pods.claimants_between((range.first, range.last)))
    }

    /// True if a pod disproves the ranges now.
    pub(super) fn has_strays(&self) -> bool {
        let own = self.pods.live_on(&self.settings.node);
        let inside = self.claims_in_own_range().map(|(_, record)| record);
        let mut pods = own.chain(inside);
        pods.any(|record| record.is_live() && self.is_stray(&record.pod))
    }

    fn is_stray(&self, pod: &Pod) -> bool {
        let is_own = self.is_own(pod);
        let mut ips = pod.ips.iter().filter(|_| pod.node.is_some() && !pod.host_network);
        !self.own_ranges().is_empty() && ips.any(|ip| self.is_in_own_range(*ip) != is_own)
    }

    fn own_ranges(&self) -> &[Cidr] {
        self.nodes.get(self.settings.node.as_str()).map_or(&[], |node| &node.pod_cidrs)
    }
}

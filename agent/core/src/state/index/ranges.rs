//! Which node hands out an IP: the one in whose ranges (`spec.podCIDRs`) it lies.
//!
//! Some clusters set ranges and hand out other IPs (Calico's IPAM does). A pod that shows an IP
//! outside of its node's ranges contradicts these, and so does a pod that shows an IP of another
//! node's.

use super::pods::Record;
use super::{ClusterIndex, Ipam};
use crate::facts::{Cidr, Node, Pod, Text};
use epguard_common::{Addr, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

/// So long after the last such pod the ranges count again: an IPAM that hands out such IPs goes on
/// doing so, but a client that may write `pods/status` can show any IP.
const STRAYS: Duration = Duration::from_hours(1);

impl ClusterIndex {
    /// True if the IP lies in the ranges of the node, and these are what the node hands out.
    pub(crate) fn hands_out(&self, node: &str, ip: Addr) -> bool {
        self.believed(node).is_some_and(|node| has(node, ip))
    }

    /// The Node, if its ranges, as far as it has some, are what it hands out.
    fn believed(&self, node: &str) -> Option<&Node> {
        let is_believed = match self.settings.ipam {
            Ipam::Cluster => false,
            Ipam::Node => true,
            Ipam::Auto => !self.nodes.is_strayed(node),
        };
        if is_believed {
            self.nodes.get(node)
        } else {
            None
        }
    }

    /// True if only pods of this node can hold the IP.
    pub(crate) fn is_exclusive(&self, ip: Addr) -> bool {
        self.hands_out(&self.settings.node, ip)
    }

    /// The range of the agent's node that has the IP.
    pub(crate) fn own_range_of(&self, ip: Addr) -> Option<&Cidr> {
        let own = self.nodes.get(&self.settings.node)?;
        own.pod_cidrs.iter().find(|range| range.contains(ip))
    }

    /// The node that alone hands the IP out, if that is known: one of the pods that had the IP ran
    /// on it, and it is still the same Node object.
    pub(crate) fn only_node_that_hands_out<'a>(
        &self,
        ip: Addr,
        mut had_it: impl Iterator<Item = &'a Record>,
    ) -> Option<&'a Text> {
        let is_only_one = self.nodes.with_range_of(ip).count() == 1;
        had_it.find_map(|record| {
            let node = record.pod.node.as_ref()?;
            let is_same = record.ran_on.is_some() && record.ran_on == self.nodes.incarnation(node);
            (is_only_one && is_same && self.hands_out(node, ip)).then_some(node)
        })
    }

    /// Who can have given an IP to a pod that may hold it without showing it. `node` alone hands it
    /// out.
    ///
    /// Of another node that holds only if its own IPs of that family are known to be of its ranges.
    /// The ranges of a Node never change once it has some, and no two Nodes have the same at one
    /// time (`nodeipam`). So another node has not handed the IP out, if it is the Node that is
    /// known: not a later one of its name, which has got the range since.
    pub(crate) fn can_have_been_given<'a>(
        &self,
        holder: &'a Record,
        ip: Addr,
        node: Option<&Text>,
    ) -> GivenBy<'a> {
        let (Some(node), Some(own)) = (node, &holder.pod.node) else {
            return GivenBy::Any;
        };
        if own == node {
            return GivenBy::ItsNode;
        }
        if !self
            .believed(own)
            .is_some_and(|own| has_range_of_family(own, ip))
        {
            return GivenBy::Any;
        }
        if self.nodes.is_seen_since(own, holder.unshown_since().into()) {
            GivenBy::None
        } else {
            GivenBy::ItsNodeUnlessKnown(own)
        }
    }

    /// True if the pod may hold an IP that it shows. A client that may annotate a pod can write any
    /// address: an IP that only this node hands out is not another node's.
    pub(crate) fn may_hold(&self, record: &Record, ip: Addr) -> bool {
        record.pod.ips.contains(&ip) || self.is_own(&record.pod) || !self.is_exclusive(ip)
    }

    /// True for a pod of this node.
    pub(crate) fn is_own(&self, pod: &Pod) -> bool {
        pod.node.as_deref() == Some(&*self.settings.node)
    }

    /// The IPs of this node's ranges that pods show, with these pods.
    pub(crate) fn claims_in_own_range(&self) -> impl Iterator<Item = (Addr, &Record)> {
        self.claims_in_ranges_of(&self.settings.node)
    }

    /// Notes that a pod contradicts ranges. Returns the Nodes whose ranges do not count from now
    /// on.
    pub(super) fn note_stray(&mut self, now: Duration, uid: Uid) -> BTreeSet<Text> {
        let contradicted = match self.pods.get(uid) {
            Some(record) if record.is_live() => self.contradicted_by(&record.pod),
            _ => BTreeSet::new(),
        };
        contradicted
            .into_iter()
            .filter(|node| self.nodes.stray(now, node.clone()))
            .collect()
    }

    /// Lets ranges count again that no pod has contradicted for [`STRAYS`]. Returns their Nodes.
    pub(super) fn forget_strays(&mut self, now: Duration) -> BTreeSet<Text> {
        let mut believed = BTreeSet::new();
        for node in self.nodes.strayed_for(now, STRAYS) {
            if self.has_strays(&node) {
                self.nodes.stray(now, node);
            } else {
                self.nodes.believe(&node);
                believed.insert(node);
            }
        }
        believed
    }

    /// True if a pod contradicts the ranges of a Node now.
    pub(super) fn has_strays(&self, node: &str) -> bool {
        let inside = self.claims_in_ranges_of(node).map(|(_, record)| record);
        let mut pods = self.pods.live_on(node).chain(inside);
        pods.any(|record| record.is_live() && self.contradicted_by(&record.pod).contains(node))
    }

    /// The Nodes whose ranges the pod contradicts: its own Node's by an IP outside of them,
    /// another's by one inside.
    fn contradicted_by(&self, pod: &Pod) -> BTreeSet<Text> {
        let mut contradicted = BTreeSet::new();
        let Some(name) = &pod.node else {
            return contradicted;
        };
        if pod.host_network {
            return contradicted;
        }
        let own = self.nodes.get(name).filter(|own| !own.pod_cidrs.is_empty());
        for ip in &pod.ips {
            let others = self
                .nodes
                .with_range_of(*ip)
                .filter(|node| node.name != *name);
            contradicted.extend(others.map(|node| node.name.clone()));
            if own.is_some_and(|own| !has(own, *ip)) {
                contradicted.insert(name.clone());
            }
        }
        contradicted
    }

    fn claims_in_ranges_of(&self, node: &str) -> impl Iterator<Item = (Addr, &Record)> {
        let ranges: &[Cidr] = self.nodes.get(node).map_or(&[], |node| &node.pod_cidrs);
        ranges
            .iter()
            .flat_map(|range| self.pods.claimants_between(range.first, range.last))
    }
}

/// Who can have given an IP to a possible holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBy<'a> {
    /// No node: the one that alone hands the IP out is not the holder's.
    None,
    /// The holder's node.
    ItsNode,
    /// The holder's node, should it be a later one than the one that is known: it was not seen
    /// since the pod was bound.
    ItsNodeUnlessKnown(&'a Text),
    /// Any node.
    Any,
}

fn has_range_of_family(node: &Node, ip: Addr) -> bool {
    node.pod_cidrs
        .iter()
        .any(|range| range.is_v4() == ip.is_v4())
}

fn has(node: &Node, ip: Addr) -> bool {
    node.pod_cidrs.iter().any(|range| range.contains(ip))
}

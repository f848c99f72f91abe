//! Which node hands out which IPs.

use super::{Scope, World};
use crate::facts::Pod;
use epguard_common::Addr;

/// Who hands out pod IPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Ipam {
    /// Node ranges (`spec.podCIDRs`) are believed until a pod shows an IP outside its own node's: Calico, for one,
    /// leaves them set and hands out others. Believed only with `--pod-scope cluster`: elsewhere such a pod is not seen
    #[default]
    Auto,
    /// Each node hands out its own podCIDRs.
    Node,
    /// One pool for the cluster: any pod may get any IP.
    Cluster,
}

impl World {
    /// Learns from a pod what isn't about the pod itself. True if it changed how other pods are judged.
    pub fn learn(&mut self, pod: &Pod) -> bool {
        let before = (self.infrastructure.len(), self.ranges_are_honoured);
        self.infrastructure.extend(&pod.host_ips);
        self.ranges_are_honoured &= self.honours_ranges(pod);
        before != (self.infrastructure.len(), self.ranges_are_honoured)
    }

    pub(super) fn honours_ranges(&self, pod: &Pod) -> bool {
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

    /// Whether only pods of this node can hold the IP.
    #[must_use]
    pub fn is_exclusive(&self, ip: Addr, node: Option<&str>) -> bool {
        let in_range = || {
            node.and_then(|node| self.nodes.get(node))
                .is_some_and(|node| node.pod_cidrs.iter().any(|cidr| cidr.contains(ip)))
        };
        match self.settings.ipam {
            Ipam::Cluster => false,
            Ipam::Node => in_range(),
            Ipam::Auto => self.settings.scope == Scope::Cluster && self.ranges_are_honoured && in_range(),
        }
    }
}

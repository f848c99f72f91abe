//! Which claims to an IP count for Services and pods of other owners.
//!
//! A client that may annotate a pod can write any addresses into Multus' annotation. Such a claim protects packets to
//! the pod's own Services. It counts for others only where the pod can hold the IP.

use super::ClusterIndex;
use super::pods::Record;
use epguard_common::Addr;

impl ClusterIndex {
    /// True if, for others, the pod counts as a holder of an IP that it shows: it publishes the IP in its status; or it
    /// runs, with an IP, and no other node alone hands this one out.
    #[must_use]
    pub fn is_plausible(&self, record: &Record, ip: Addr) -> bool {
        let pod = &record.pod;
        let elsewhere = || {
            let node = self.ranges_of_nodes.node(ip);
            node.is_some() && pod.node.as_deref() != node && self.is_exclusive(ip, node)
        };
        pod.ips.contains(&ip) || pod.node.is_some() && !pod.ips.is_empty() && !elsewhere()
    }

    /// Live pods that hold the IP, or may.
    pub fn plausible_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        let claimants = self.pods.claimants(ip);
        claimants.filter(move |record| record.is_live() && self.is_plausible(record, ip))
    }
}

//! Pods that have the same address: the CNI's IPAM gave it out twice.

use super::cluster::Cluster;
use super::finding::{Finding, Object, Problem, Severity};
use crate::shared::output::listed;
use epguard_core::facts::{Pod, named};
use std::collections::BTreeSet;

/// One finding per address, on the first of the pods. `namespace`: only addresses that concern one of its pods.
#[must_use]
pub fn check(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (ip, mut holders) in cluster.shared() {
        let concerned = |namespace| holders.iter().any(|pod| pod.name.0 == namespace);
        if !namespace.is_none_or(concerned) {
            continue;
        }
        holders.sort_by_key(|pod| &pod.name);
        let nodes: BTreeSet<&str> = holders.iter().filter_map(|pod| pod.node.as_deref()).collect();
        let nodes: Vec<&str> = nodes.into_iter().collect();
        findings.push(Finding {
            object: Object::new("Pod", &holders[0].name),
            controller: format!("IPAM of the CNI on {}", nodes.join(", ")),
            address: Some(ip.ip()),
            problem: Problem::DuplicateAddress,
            severity: Severity::Error,
            what: format!("{} have the same address", pods(holders.iter().copied())),
            fix:
                "delete all of these pods but one, so that they come back with others; then check for nodes \
                  with the same range, or leases that the IPAM lost"
                    .to_owned(),
        });
    }
    findings
}

/// Names of pods: `a/b, a/c and a/d`.
#[must_use]
pub fn pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| named(&pod.name)).collect();
    listed(&names)
}

//! Pods that share an address: the CNI's IPAM gave it out twice, or gave out one that is no pod's.

use super::cluster::Cluster;
use super::finding::{Finding, Object, Problem, Severity};
use crate::shared::output::listed;
use epguard_common::Addr;
use epguard_core::facts::{Pod, named};
use std::collections::BTreeSet;

/// At most one finding of each kind per address, on the first of the pods. `namespace`: only addresses that concern one of its
/// pods.
#[must_use]
pub fn check(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (ip, mut holders) in cluster.addresses() {
        let concerned = |namespace| holders.iter().any(|pod| pod.name.0 == namespace);
        if !namespace.is_none_or(concerned) {
            continue;
        }
        holders.sort_by_key(|pod| &pod.name);
        findings.extend(duplicate(cluster, ip, &holders));
        findings.extend(foreign(cluster, ip, &holders));
    }
    findings
}

/// Pods whose IP outlives them may share it, such as those of a machine that migrates.
fn duplicate(cluster: &Cluster<'_>, ip: Addr, holders: &[&Pod]) -> Option<Finding> {
    let holders: Vec<&Pod> = holders.iter().copied().filter(|pod| !cluster.is_spared(pod)).collect();
    if holders.len() < 2 {
        return None;
    }
    let what = format!("{} have the same address", pods(holders.iter().copied()));
    let fix = "delete all of these pods but one, so that they come back with others; then check for nodes with the same range, \
               or leases that the IPAM lost"
        .to_owned();
    Some(finding(ip, &holders, Problem::DuplicateAddress, Severity::Error, what, fix))
}

fn foreign(cluster: &Cluster<'_>, ip: Addr, holders: &[&Pod]) -> Option<Finding> {
    let others = cluster.not_pods(ip);
    if holders.is_empty() || others.is_empty() {
        return None;
    }
    let what = format!("{} has the address of {}", pods(holders.iter().copied()), listed(&others));
    let fix = "see which ranges the IPAM, the Services and the nodes use: one of them gets the other's packets, and epguard denies \
               none of these"
        .to_owned();
    Some(finding(ip, holders, Problem::ForeignAddress, Severity::Warning, what, fix))
}

fn finding(
    ip: Addr,
    holders: &[&Pod],
    problem: Problem,
    severity: Severity,
    what: String,
    fix: String,
) -> Finding {
    let nodes: BTreeSet<&str> = holders.iter().filter_map(|pod| pod.node.as_deref()).collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    Finding {
        object: Object::new("Pod", &holders[0].name),
        controller: format!("IPAM of the CNI on {}", nodes.join(", ")),
        address: Some(ip.ip()),
        problem,
        severity,
        what,
        fix,
    }
}

/// Names of pods: `a/b, a/c and a/d`.
#[must_use]
pub fn pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| named(&pod.name)).collect();
    listed(&names)
}

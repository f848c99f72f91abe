//! Checks whether pods keep to the ranges of their nodes.

use super::cluster::Cluster;
use super::finding::{LintFinding, LintProblem, NAMES};
use crate::shared::output::first;
use epguard_common::UidState;
use epguard_core::facts::{Cidr, Pod};
use std::collections::BTreeMap;

/// Pods outside of the range of their node, if most pods keep to theirs: one finding for each node.
pub fn check(cluster: &Cluster<'_>, pods: &[Pod], namespace: Option<&str>) -> Vec<LintFinding> {
    if !cluster.ranges_are_used {
        return Vec::new();
    }
    let mut by_node: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut ranges_of: BTreeMap<&str, Vec<Cidr>> = BTreeMap::new();
    for pod in pods {
        let is_concerned = namespace.is_none_or(|namespace| *pod.name.namespace == *namespace);
        let is_judged = pod.uid_state == UidState::Live && !cluster.is_spared(pod);
        if pod.host_network || !is_concerned || !is_judged {
            continue;
        }
        for ip in &pod.ips {
            let ranges = cluster.ranges(pod, *ip);
            if ranges.is_empty() || ranges.iter().any(|range| range.contains(*ip)) {
                continue;
            }
            let node = pod.node.as_deref().unwrap_or_default();
            let pods = by_node.entry(node).or_default();
            pods.push(format!("{} ({})", ip.ip(), pod.name));
            ranges_of.insert(node, ranges);
        }
    }
    let mut findings = Vec::new();
    for (node, pods) in by_node {
        let ranges: Vec<String> = ranges_of[node].iter().map(ToString::to_string).collect();
        let what = format!(
            "its pods have addresses outside of its range {}: {}",
            ranges.join(", "),
            first(&pods, NAMES, pods.len())
        );
        let fix = "compare the range in the node's CNI configuration with its spec.podCIDRs: pods of other nodes keep to \
                   theirs"
            .to_owned();
        let problem = LintProblem::OutsidePodCidr;
        findings.push(LintFinding::of_nodes(
            node.to_owned(),
            node,
            problem,
            what,
            fix,
        ));
    }
    findings
}

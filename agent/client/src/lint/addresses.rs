//! Checks the addresses that pods show: two pods with one, a pod with that of a Service or node, or
//! with one outside of its node's range. One finding for each cause, as the cause is not the pod:
//! the CNI's IPAM gave the address out.

use super::cluster::{Cluster, NotPod};
use super::finding::{LintFinding, LintObject, LintProblem, NAMES, Severity, ipam_of, pod_names};
use super::ranges;
use crate::shared::output::{first, in_words};
use epguard_common::Addr;
use epguard_core::facts::{ObjectName, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// All findings. Further networks may overlap, and are not looked at. `namespace`: only addresses
/// that concern one of its pods.
pub fn check(cluster: &Cluster<'_>, pods: &[Pod], namespace: Option<&str>) -> Vec<LintFinding> {
    let mut findings = shared(cluster, namespace);
    findings.extend(foreign(cluster, namespace));
    findings.extend(ranges::check(cluster, pods, namespace));
    findings
}

/// Addresses that pods of some nodes share.
#[derive(Default)]
struct Shared<'a> {
    nodes: BTreeSet<&'a str>,
    pods: BTreeMap<Addr, Vec<&'a Pod>>,
}

fn shared(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<LintFinding> {
    let mut groups: Vec<Shared<'_>> = Vec::new();
    let mut handed_on: BTreeMap<&ObjectName, HandedOn<'_>> = BTreeMap::new();
    for ip in cluster.agent().pods.shared_ips() {
        let mut holders = concerned_holders(cluster, ip, namespace);
        // Pods whose IP outlives them may share it, such as those of a machine that migrates.
        holders.retain(|pod| !cluster.is_spared(pod));
        let (ending, staying): (Vec<&Pod>, Vec<&Pod>) =
            holders.into_iter().partition(|pod| pod.deleting);
        match (&staying[..], &ending[..]) {
            ([next], [_, ..]) => {
                let of_next = handed_on.entry(&next.name).or_insert_with(|| HandedOn {
                    next,
                    ending,
                    ips: Vec::new(),
                });
                of_next.ips.push(ip);
            }
            ([_, _, ..], _) => join(&mut groups, ip, staying),
            _ => {}
        }
    }
    let mut findings: Vec<LintFinding> = groups.iter().map(Shared::finding).collect();
    findings.extend(handed_on.values().map(HandedOn::finding));
    findings
}

/// Adds the address to the group of its pods' nodes, and makes one of the groups that have such a
/// node in common.
fn join<'a>(groups: &mut Vec<Shared<'a>>, ip: Addr, pods: Vec<&'a Pod>) {
    let mut joined = Shared {
        nodes: nodes_of(&pods),
        pods: BTreeMap::from([(ip, pods)]),
    };
    let (same, others): (Vec<Shared<'_>>, Vec<Shared<'_>>) = std::mem::take(groups)
        .into_iter()
        .partition(|group| !group.nodes.is_disjoint(&joined.nodes));
    for group in same {
        joined.nodes.extend(group.nodes);
        joined.pods.extend(group.pods);
    }
    groups.extend(others);
    groups.push(joined);
}

impl Shared<'_> {
    fn finding(&self) -> LintFinding {
        let nodes: Vec<String> = self.nodes.iter().map(|node| (*node).to_owned()).collect();
        let names = first(&nodes, NAMES, nodes.len());
        let each: Vec<String> = self
            .pods
            .iter()
            .map(|(ip, pods)| format!("{} ({})", ip.ip(), some_names(pods)))
            .collect();
        let addresses = first(&each, NAMES, each.len());
        let (problem, what, fix) = if let [node] = &nodes[..] {
            let what = format!("pods of node {node} have the same address: {addresses}");
            let fix = format!(
                "which of these pods has the address only the node knows: compare what its CNI has given out with its \
                 pods: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
            );
            (LintProblem::DuplicateAddress, what, fix)
        } else {
            let what = format!("nodes {names} give their pods the same addresses: {addresses}");
            let fix = "new pods get such addresses again, until the nodes' ranges differ: compare those in their CNI \
                       configurations with kubectl get nodes -o custom-columns=NAME:.metadata.name,RANGES:.spec.podCIDRs"
                .to_owned();
            (LintProblem::SharedRange, what, fix)
        };
        let node = nodes.first().cloned().unwrap_or_default();
        let found = LintFinding::of_nodes(node, &names, problem, what, fix);
        let mut addresses = self.pods.keys();
        let only_one = addresses.next().filter(|_| self.pods.len() == 1);
        LintFinding {
            address: only_one.map(|ip| ip.ip()),
            severity: Severity::Error,
            ..found
        }
    }
}

/// Addresses of a pod that terminating pods show, too.
struct HandedOn<'a> {
    next: &'a Pod,
    ending: Vec<&'a Pod>,
    ips: Vec<Addr>,
}

impl HandedOn<'_> {
    fn finding(&self) -> LintFinding {
        let ips: Vec<String> = self.ips.iter().map(|ip| ip.ip().to_string()).collect();
        let what = format!(
            "has {}, which {} shows, too, and is terminating",
            in_words(&ips),
            some_names(&self.ending)
        );
        let ObjectName { namespace, name } = &self.ending[0].name;
        let fix = format!(
            "nothing has to change: it ends with the terminating pod; what that waits for: \
             kubectl -n {namespace} describe pod {name}"
        );
        let object = LintObject::new("Pod", &self.next.name);
        let nodes = first_nodes(&self.ending);
        let problem = LintProblem::HandedOnAddress;
        let found = LintFinding::new(object, ipam_of(&nodes), problem, what, fix);
        LintFinding {
            address: self.ips.first().map(|ip| ip.ip()),
            ..found
        }
    }
}

/// Pods that have the address of a Service or of another Node. One that has its own node's is the
/// only pod of a node that is made for it (such as of AWS Fargate).
fn foreign(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<LintFinding> {
    let mut of_services = Vec::new();
    let mut of_nodes = Vec::new();
    for (ip, others) in &cluster.not_pods {
        let holders = concerned_holders(cluster, *ip, namespace);
        let Some(pod) = holders.iter().find(|pod| !is_on_one_of(pod, others)) else {
            continue;
        };
        let found = Foreign {
            pod,
            ip: *ip,
            others: others.iter().map(ToString::to_string).collect(),
        };
        if others.iter().any(|other| matches!(other, NotPod::Node(_))) {
            of_nodes.push(found);
        } else {
            of_services.push(found);
        }
    }
    let groups = [of_services, of_nodes];
    groups
        .iter()
        .filter_map(|group| foreign_finding(group))
        .collect()
}

fn is_on_one_of(pod: &Pod, others: &[NotPod<'_>]) -> bool {
    let mut others = others.iter();
    others.any(|other| matches!(other, NotPod::Node(node) if pod.node.as_deref() == Some(*node)))
}

/// A pod that has the address of others.
struct Foreign<'a> {
    pod: &'a Pod,
    ip: Addr,
    others: Vec<String>,
}

fn foreign_finding(found: &[Foreign<'_>]) -> Option<LintFinding> {
    let some = found.first()?;
    let each: Vec<String> = found
        .iter()
        .map(|one| {
            format!(
                "{} has {} of {}",
                one.pod.name,
                one.ip.ip(),
                in_words(&one.others)
            )
        })
        .collect();
    let pods: Vec<&Pod> = found.iter().map(|one| one.pod).collect();
    let fix = "epguard denies no packet to such an address; which of them gets it is up to the node: compare the ranges \
               of the IPAM with those of Services and nodes";
    let finding = LintFinding::new(
        LintObject::new("Pod", &some.pod.name),
        ipam_of(&first_nodes(&pods)),
        LintProblem::ForeignAddress,
        first(&each, NAMES, each.len()),
        fix,
    );
    Some(LintFinding {
        address: Some(some.ip.ip()).filter(|_| found.len() == 1),
        ..finding
    })
}

/// The live pods that have the address on their own network; none if none of them is of the
/// namespace.
fn concerned_holders<'a>(
    cluster: &'a Cluster<'_>,
    ip: Addr,
    namespace: Option<&str>,
) -> Vec<&'a Pod> {
    let mut holders = cluster.holders(ip);
    holders.retain(|pod| pod.ips.contains(&ip));
    if let Some(namespace) = namespace
        && !holders.iter().any(|pod| &*pod.name.namespace == namespace)
    {
        return Vec::new();
    }
    holders
}

fn nodes_of<'a>(pods: &[&'a Pod]) -> BTreeSet<&'a str> {
    pods.iter().filter_map(|pod| pod.node.as_deref()).collect()
}

fn first_nodes(pods: &[&Pod]) -> String {
    let nodes: Vec<String> = nodes_of(pods).into_iter().map(str::to_owned).collect();
    first(&nodes, NAMES, nodes.len())
}

/// The names of all pods, or of the first ones.
fn some_names(pods: &[&Pod]) -> String {
    if pods.len() <= NAMES {
        return pod_names(pods.iter().copied());
    }
    let names: Vec<String> = pods.iter().map(|pod| pod.name.to_string()).collect();
    first(&names, NAMES, names.len())
}

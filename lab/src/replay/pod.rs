//! The proofs in a pod's raw object (docs/verdicts.md).

use crate::object::{annotation, each, ip, non_empty};
use serde_json::Value;
use std::net::IpAddr;

/// Result of a rule. `Perhaps`: only a cautious reading of its text gives a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleResult {
    No,
    Perhaps,
    Yes,
}

/// A static pod's mirror: its UID is no evidence about containers.
pub(super) fn is_mirror(pod: &Value) -> bool {
    annotation(pod, "kubernetes.io/config.mirror").is_some()
}

/// True if the pod uses its node's network and addresses.
pub(super) fn is_host_network(pod: &Value) -> bool {
    pod["spec"]["hostNetwork"] == true
}

/// Phase Succeeded or Failed, by any writer.
pub(super) fn is_terminal(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    )
}

/// Whether the status proves that the UID will never send or receive again, if it isn't a mirror's.
pub(super) fn is_dead(pod: &Value) -> bool {
    is_terminal(pod)
        && phase_is_the_kubelets(pod)
        && condition(pod, "PodReadyToStartContainers").is_some_and(|c| c["status"] == "False")
        && each(&pod["spec"]["containers"]).count()
            <= each(&pod["status"]["containerStatuses"]).count()
        && containers(pod).all(|status| {
            status["state"]["terminated"].is_object()
                || (!status["state"]["running"].is_object()
                    && !status["lastState"]["terminated"].is_object())
        })
        && containers(pod).any(|status| status["state"]["terminated"].is_object())
}

/// The IPs that the pod publishes: status and Multus' network-status.
pub(super) fn ips(pod: &Value) -> Vec<IpAddr> {
    let networks = annotation(pod, "k8s.v1.cni.cncf.io/network-status")
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .unwrap_or_default();
    status_ips(pod)
        .chain(
            each(&networks)
                .flat_map(|network| each(&network["ips"]))
                .filter_map(ip),
        )
        .collect()
}

/// Addresses of the pod's node, as in the pod's status; the pod's own if it uses its node's
/// network.
pub(super) fn node_ips(pod: &Value) -> Vec<IpAddr> {
    let status = &pod["status"];
    let hosts = std::iter::once(&status["hostIP"])
        .chain(each(&status["hostIPs"]).map(|entry| &entry["ip"]));
    let mut ips: Vec<IpAddr> = hosts.filter_map(ip).collect();
    if is_host_network(pod) {
        ips.extend(status_ips(pod));
    }
    ips
}

/// Whether the pod, alive, may hold an IP that it doesn't publish: it has none yet, or its sandbox
/// restarts.
///
/// A new sandbox is first reported with the old IPs and the old containers; the IPs are current
/// once a container was started after it. The kubelet writes both times in UTC and whole seconds,
/// so they compare as text.
pub(super) fn may_hold_unpublished(pod: &Value) -> RuleResult {
    if non_empty(&pod["spec"]["nodeName"]).is_none() || is_terminal(pod) || is_host_network(pod) {
        return RuleResult::No;
    }
    let sandbox = condition(pod, "PodReadyToStartContainers");
    if status_ips(pod).next().is_none() || sandbox.is_some_and(|c| c["status"] != "True") {
        return RuleResult::Yes;
    }
    let up_since = sandbox.and_then(|c| c["lastTransitionTime"].as_str());
    match (containers(pod).filter_map(last_start).max(), up_since) {
        (Some(start), Some(up)) if start < up => RuleResult::Yes,
        (Some(_), _) => RuleResult::No,
        (None, _) => RuleResult::Perhaps,
    }
}

/// False if another program may have written the phase: others than the kubelet write it while
/// containers run, and a second owner shows such a writer.
fn phase_is_the_kubelets(pod: &Value) -> bool {
    let mut owners = each(&pod["metadata"]["managedFields"])
        .filter(|fields| fields["fieldsV1"]["f:status"].get("f:phase").is_some())
        .peekable();
    owners.peek().is_some() && owners.all(|fields| fields["manager"] == "kubelet")
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    each(&pod["status"]["conditions"]).find(|condition| condition["type"] == kind)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ]
    .into_iter()
    .flat_map(|list| each(&pod["status"][list]))
}

fn last_start(container: &Value) -> Option<&str> {
    let runs = [
        &container["state"]["running"],
        &container["state"]["terminated"],
        &container["lastState"]["terminated"],
    ];
    runs.into_iter()
        .filter_map(|run| run["startedAt"].as_str())
        .max()
}

fn status_ips(pod: &Value) -> impl Iterator<Item = IpAddr> {
    let status = &pod["status"];
    std::iter::once(&status["podIP"])
        .chain(each(&status["podIPs"]).map(|entry| &entry["ip"]))
        .filter_map(ip)
}

//! What the status of a pod of the check says. Pure.

use epguard_client::answers::status::Problem;
use epguard_client::shared::calls::CallReport;
use k8s_openapi::api::core::v1::{ContainerState, Pod, PodCondition, PodStatus};
use kube::ResourceExt as _;
use std::net::IpAddr;

/// The condition by which kubelets from 1.29 on show that a pod has a sandbox.
const SANDBOX: &str = "PodReadyToStartContainers";

/// The pod's container runs, and its IP is shown.
pub(super) fn is_running(pod: &Pod) -> bool {
    let is_up = phase(pod) == "Running";
    is_up && !ips(pod).is_empty() && state(pod).is_some_and(|state| state.running.is_some())
}

/// The pod has ended, and the kubelet shows that its sandbox is gone, if it shows that at all.
pub(super) fn is_over(pod: &Pod) -> bool {
    let has_sandbox = condition(pod, SANDBOX).is_some_and(|condition| condition.status == "True");
    has_ended(pod) && !has_sandbox
}

fn has_ended(pod: &Pod) -> bool {
    ["Succeeded", "Failed"].contains(&phase(pod))
}

/// All IPs that the pod shows.
pub(super) fn ips(pod: &Pod) -> Vec<IpAddr> {
    let status = status(pod);
    let ips = status.into_iter().flat_map(|status| status.pod_ips.iter());
    ips.flatten().filter_map(|ip| ip.ip.parse().ok()).collect()
}

/// What its calls became. Errors: why it has not reported them.
pub(super) fn report(pod: &Pod) -> Result<CallReport, Problem> {
    let ended = state(pod).and_then(|state| state.terminated.as_ref());
    let Some(ended) = ended else {
        return Err(unfinished(pod));
    };
    let message = ended.message.as_deref().unwrap_or_default();
    serde_json::from_str(message).map_err(|_| {
        Problem::new(
            format!(
                "the report of pod {} cannot be read (exit code {}): {message:?}",
                full_name(pod),
                ended.exit_code
            ),
            "the plugin and the image need the same version",
        )
    })
}

/// Why a pod has not ended.
pub(super) fn unfinished(pod: &Pod) -> Problem {
    let what = if has_ended(pod) && state(pod).is_some() {
        "has ended, and its kubelet still shows its sandbox"
    } else if is_running(pod) {
        "still runs"
    } else {
        return obstacle(pod);
    };
    Problem::new(
        format!("pod {} {what}", full_name(pod)),
        format!(
            "see whether {} is busy, or pass a longer --timeout",
            node(pod)
        ),
    )
}

/// Why the pod does not run, in the words of the kubelet or of the scheduler, and the remedy.
pub(super) fn obstacle(pod: &Pod) -> Problem {
    let cause = of_container(pod)
        .or_else(|| of_scheduling(pod))
        .unwrap_or_else(|| of_phase(pod));
    Problem::new(
        format!("pod {} does not run: {}", full_name(pod), cause.what),
        cause.remedy,
    )
}

/// What its container's state says; none if that is nothing.
fn of_container(pod: &Pod) -> Option<Problem> {
    let state = state(pod)?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref()?;
        let what = with_message(reason, waiting.message.as_deref());
        return Some(Problem::new(what, remedy_of_waiting(reason, pod)));
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let reason = format!("{reason} (exit code {})", ended.exit_code);
    Some(Problem::new(
        with_message(&reason, ended.message.as_deref()),
        "`kubectl epguard check --keep` keeps the pod: see its log",
    ))
}

/// What ends this wait of a container.
fn remedy_of_waiting(reason: &str, pod: &Pod) -> String {
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName"
        | "ImageInspectError" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            "pass --image with one that the node has, or pulls without a secret: the check's namespaces have none".to_owned()
        }
        "ContainerCreating" | "PodInitializing" => format!(
            "see whether the container runtime and the network plugin of {} work: `kubectl epguard check --keep` keeps \
             the pod with its Events",
            node(pod)
        ),
        _ => EVENTS.to_owned(),
    }
}

const EVENTS: &str = "`kubectl epguard check --keep` keeps the pod: see its Events";

/// What the scheduler says; none if it has placed the pod, or says nothing.
fn of_scheduling(pod: &Pod) -> Option<Problem> {
    let scheduled = condition(pod, "PodScheduled")?;
    if scheduled.status != "False" {
        return None;
    }
    let reason = scheduled.reason.as_deref().unwrap_or("Unschedulable");
    Some(Problem::new(
        with_message(reason, scheduled.message.as_deref()),
        "make room for it there (10m of CPU, 16Mi of memory), or choose other nodes with --node",
    ))
}

/// What is left to say.
fn of_phase(pod: &Pod) -> Problem {
    let phase = phase(pod);
    if phase == "Running" {
        return Problem::new("Running: it shows no IP", EVENTS);
    }
    if phase != "Pending" {
        let status = status(pod);
        let reason = status.and_then(|status| status.reason.as_deref());
        let message = status.and_then(|status| status.message.as_deref());
        return Problem::new(with_message(reason.unwrap_or(phase), message), EVENTS);
    }
    if pod.spec.iter().any(|spec| spec.node_name.is_some()) {
        let node = node(pod);
        return Problem::new(
            format!("Pending: the kubelet of {node} shows nothing of it"),
            format!(
                "see whether the node is ready (`kubectl get node {node}`), or pass a longer --timeout"
            ),
        );
    }
    Problem::new(
        "Pending: no scheduler has placed it",
        "see whether kube-scheduler runs",
    )
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    }
}

/// `namespace/name`.
fn full_name(pod: &Pod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    format!("{namespace}/{}", pod.name_any())
}

/// The node that it is on.
fn node(pod: &Pod) -> &str {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.unwrap_or("its node")
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = status(pod)?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn status(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

fn phase(pod: &Pod) -> &str {
    let phase = status(pod).and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

/// The state of its only container.
fn state(pod: &Pod) -> Option<&ContainerState> {
    let containers = status(pod)?.container_statuses.as_ref()?;
    containers.first()?.state.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"namespace": "check", "name": "p"}, "status": status,
            "spec": {"nodeName": "n", "containers": []}}),
        )
        .unwrap()
    }

    fn container(state: &Value) -> Value {
        json!([{"name": "check", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state}])
    }

    #[test]
    fn a_pod_runs_once_its_container_does_and_its_ip_is_shown() {
        let running = container(&json!({"running": {}}));
        let mut status = json!({"phase": "Running", "containerStatuses": running, "podIPs": [{"ip": "10.0.0.1"}]});
        assert!(is_running(&pod(&status)));
        status["podIPs"].take();
        assert!(!is_running(&pod(&status)));
    }

    #[test]
    fn a_pod_is_over_once_its_sandbox_is_gone() {
        for (phase, sandbox, over) in [
            ("Running", "True", false),
            ("Succeeded", "True", false),
            ("Succeeded", "False", true),
            ("Failed", "False", true),
        ] {
            let conditions = json!([{"type": SANDBOX, "status": sandbox}]);
            let status = json!({"phase": phase, "conditions": conditions});
            assert_eq!(is_over(&pod(&status)), over, "{phase} {sandbox}");
        }
        assert!(
            is_over(&pod(&json!({"phase": "Succeeded"}))),
            "an older kubelet"
        );
    }

    #[test]
    fn what_keeps_a_pod_is_said_by_the_kubelet_or_by_the_scheduler_with_a_remedy() {
        let pulled = container(
            &json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}),
        );
        let made = container(&json!({"waiting": {"reason": "ContainerCreating"}}));
        let started = container(
            &json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no exec"}}),
        );
        let scheduled = |status: &str| json!({"type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": "0/1 nodes"});
        for (status, words, remedy) in [
            (
                json!({"containerStatuses": pulled, "conditions": [scheduled("True")]}),
                "ImagePullBackOff: no such host",
                "pass --image with one that the node has",
            ),
            (
                json!({"containerStatuses": made}),
                "ContainerCreating",
                "see whether the container runtime and the network plugin of n work",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": started}),
                "StartError (exit code 128): no exec",
                "`kubectl epguard check --keep` keeps the pod: see its log",
            ),
            (
                json!({"conditions": [scheduled("False")]}),
                "Unschedulable: 0/1 nodes",
                "make room for it there",
            ),
            (
                json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"}),
                "OutOfcpu: Pod was rejected",
                "`kubectl epguard check --keep` keeps the pod: see its Events",
            ),
            (
                json!({"conditions": [scheduled("True")]}),
                "Pending: the kubelet of n shows nothing of it",
                "see whether the node is ready (`kubectl get node n`)",
            ),
        ] {
            let found = obstacle(&pod(&status));
            assert_eq!(found.what, format!("pod check/p does not run: {words}"));
            assert!(found.remedy.starts_with(remedy), "{found:?}");
        }
        let mut unplaced = pod(&json!({}));
        unplaced.spec = None;
        assert_eq!(
            obstacle(&unplaced).what,
            "pod check/p does not run: Pending: no scheduler has placed it"
        );
    }

    #[test]
    fn a_report_is_the_termination_message() {
        let ended = |message: &str| {
            let state =
                json!({"terminated": {"exitCode": 0, "reason": "Completed", "message": message}});
            pod(&json!({"phase": "Succeeded", "containerStatuses": container(&state)}))
        };
        assert_eq!(report(&ended("{}")), Ok(CallReport::default()));
        let error = report(&ended("panicked")).unwrap_err();
        assert!(
            error.what.contains("exit code 0") && error.remedy.contains("same version"),
            "{error:?}"
        );
        let running = json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": container(&json!({"running": {}}))});
        for (status, words) in [
            (running, "pod check/p still runs"),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "pod check/p does not run: Evicted",
            ),
        ] {
            assert_eq!(report(&pod(&status)).unwrap_err().what, words);
        }
        let ended = pod(
            &json!({"phase": "Succeeded", "containerStatuses": container(&json!({"terminated": {"exitCode": 0}}))}),
        );
        let words = "pod check/p has ended, and its kubelet still shows its sandbox";
        assert_eq!(unfinished(&ended).what, words);
    }
}

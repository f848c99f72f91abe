//! What the status of a pod of the check says. Pure.

use epguard_client::shared::calls::CallReport;
use k8s_openapi::api::core::v1::{ContainerState, Pod, PodStatus};
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
    let has_ended = ["Succeeded", "Failed"].contains(&phase(pod));
    let mut conditions = status(pod)
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let has_sandbox =
        conditions.any(|condition| condition.type_ == SANDBOX && condition.status == "True");
    has_ended && !has_sandbox
}

/// All IPs that the pod shows.
pub(super) fn ips(pod: &Pod) -> Vec<IpAddr> {
    let status = status(pod);
    let ips = status.into_iter().flat_map(|status| status.pod_ips.iter());
    ips.flatten().filter_map(|ip| ip.ip.parse().ok()).collect()
}

/// What its calls became. Errors: why it has not reported them.
pub(super) fn report(pod: &Pod) -> Result<CallReport, String> {
    let ended = state(pod).and_then(|state| state.terminated.as_ref());
    let Some(ended) = ended else {
        return Err(obstacle(pod));
    };
    let message = ended.message.as_deref().unwrap_or_default();
    serde_json::from_str(message).map_err(|_| {
        format!(
            "its report cannot be read (exit code {}): {message:?}; the plugin and the image need the same version",
            ended.exit_code
        )
    })
}

/// Why the pod does not go on, in the words of the kubelet or of the scheduler.
pub(super) fn obstacle(pod: &Pod) -> String {
    if let Some(state) = state(pod) {
        let waiting = state.waiting.as_ref();
        let ended = state.terminated.as_ref();
        let said = waiting
            .map(|waiting| (&waiting.reason, &waiting.message))
            .or(ended.map(|ended| (&ended.reason, &ended.message)));
        if let Some((Some(reason), message)) = said {
            return with_message(reason, message.as_deref());
        }
    }
    let mut conditions = status(pod)
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = conditions
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    if let Some(condition) = unscheduled {
        let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
        return with_message(reason, condition.message.as_deref());
    }
    let status = status(pod);
    let message = status.and_then(|status| status.message.as_deref());
    with_message(phase(pod), message)
}

fn with_message(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    }
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
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
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
    fn what_keeps_a_pod_is_said_by_the_kubelet_or_by_the_scheduler() {
        let pulled =
            container(&json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}}));
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"});
        for (status, words) in [
            (
                json!({"containerStatuses": pulled}),
                "ErrImagePull: no such host",
            ),
            (
                json!({"conditions": [condition]}),
                "Unschedulable: 0/1 nodes",
            ),
            (
                json!({"phase": "Failed", "message": "Pod was rejected"}),
                "Failed: Pod was rejected",
            ),
            (json!({}), "Pending"),
        ] {
            assert_eq!(obstacle(&pod(&status)), words);
        }
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
            error.contains("exit code 0") && error.contains("same version"),
            "{error}"
        );
        assert_eq!(
            report(&pod(&json!({"phase": "Failed"}))),
            Err("Failed".to_owned())
        );
    }
}

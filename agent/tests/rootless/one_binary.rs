//! Which deaths are proven where kubelet and controllers write under one manager's name, as in k3s.

use epguard_common::UidState;
use epguard_core::facts::Doubt;
use serde_json::{Value, json};

/// A pod of a controller in k3s, which the kubelet there has reported as failed.
fn failed() -> Value {
    let mut pod = super::facts::failed();
    pod["metadata"]["managedFields"] = json!([
        {"manager": "k3s", "operation": "Update", "subresource": "status",
         "fieldsV1": {"f:status": {"f:phase": {}, "f:podIPs": {}, "f:conditions": {}}}},
        {"manager": "k3s", "operation": "Update", "fieldsV1": {"f:spec": {}}},
    ]);
    pod["status"]["conditions"] = json!([
        {"type": "PodReadyToStartContainers", "status": "False"},
        {"type": "ContainersReady", "status": "False", "reason": "PodFailed"},
        {"type": "DisruptionTarget", "status": "False"},
    ]);
    pod["metadata"]["deletionTimestamp"] = Value::Null;
    pod
}

const MANAGER: &str = "/metadata/managedFields/0/manager";
const CONTAINERS: &str = "/status/conditions/1/reason";

fn disrupted(reason: &str) -> (&'static str, Value) {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
    ("/status/conditions/2", condition)
}

fn after(changes: &[(&str, Value)]) -> (UidState, Option<Doubt>) {
    let pod = super::facts::changed(failed(), changes);
    (pod.uid_state, pod.doubt.map(|doubt| *doubt))
}

#[test]
fn a_pod_that_the_kubelet_has_ended_is_dead_in_k3s_and_microk8s() {
    assert_eq!(after(&[]), (UidState::Dead, None));
    let undisrupted = failed()["status"]["conditions"].as_array().unwrap()[..2].to_vec();
    assert_eq!(
        after(&[("/status/conditions", json!(undisrupted))]),
        (UidState::Dead, None)
    );
    let succeeded = [
        ("/status/phase", json!("Succeeded")),
        (CONTAINERS, json!("PodCompleted")),
    ];
    assert_eq!(after(&succeeded), (UidState::Dead, None));
    let by_another = (
        "/metadata/managedFields/1/manager",
        json!("kube-controller-manager"),
    );
    let restarts = (CONTAINERS, json!("ContainersNotReady"));
    assert_eq!(
        after(&[by_another, restarts]),
        (UidState::Dead, None),
        "the kubelet alone has its name"
    );
    for reason in ["TerminationByKubelet", "EvictionByEvictionAPI"] {
        assert_eq!(
            after(&[disrupted(reason)]),
            (UidState::Dead, None),
            "{reason} is no PodGC"
        );
    }
}

#[test]
fn a_phase_that_podgc_may_have_written_proves_no_death() {
    for (sentence, change) in [
        (
            "the kubelet meant to start it again",
            (CONTAINERS, json!("ContainersNotReady")),
        ),
        (
            "the kubelet would have written Succeeded",
            (CONTAINERS, json!("PodCompleted")),
        ),
        ("its node is gone", disrupted("DeletionByPodGC")),
        (
            "it is terminating",
            ("/metadata/deletionTimestamp", json!("2026-11-21T01:17:00Z")),
        ),
    ] {
        assert_eq!(after(&[change]), (UidState::Retired, None), "{sentence}");
    }
}

#[test]
fn missing_evidence_is_named_once_the_containers_have_ended() {
    let writer = Doubt::Writer("a-controller".into());
    let running = ("/status/containerStatuses/0/state", json!({"running": {}}));
    let phase = json!({"f:status": {"f:phase": {}}});
    let sandbox = json!({"manager": "k3s", "subresource": "status", "fieldsV1": {"f:status": {"f:podIPs": {}}}});
    let by_another = vec![
        (MANAGER, json!("a-controller")),
        ("/metadata/managedFields/0/fieldsV1", phase),
        ("/metadata/managedFields/1", sandbox),
    ];
    for (changes, doubt) in [
        (by_another, Some(writer)),
        (
            vec![("/status/conditions", json!([]))],
            Some(Doubt::SandboxCondition),
        ),
        (vec![running], None),
    ] {
        assert_eq!(after(&changes), (UidState::Retired, doubt), "{changes:?}");
    }
}

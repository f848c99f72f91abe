//! Which deaths are proven where kubelet and controllers write under one manager's name, as in k3s.

use epguard_common::UidState;
use epguard_core::facts::{Doubt, Object as _, Pod};
use serde_json::{Value, json};

/// A pod that the kubelet in k3s has reported as failed.
fn failed() -> Value {
    let mut pod = super::facts::failed();
    pod["metadata"]["managedFields"] = json!([
        {"manager": "k3s", "operation": "Update", "subresource": "status",
         "fieldsV1": {"f:status": {"f:phase": {}, "f:podIPs": {}, "f:conditions": {}}}},
    ]);
    pod["status"]["conditions"] = json!([
        {"type": "PodReadyToStartContainers", "status": "False"},
        {"type": "ContainersReady", "status": "False", "reason": "PodFailed"},
    ]);
    pod
}

fn after(edit: impl FnOnce(&mut Value)) -> (UidState, Option<Doubt>) {
    let mut object = failed();
    edit(&mut object);
    let pod = Pod::parse(object.to_string().as_bytes()).unwrap();
    (pod.uid_state, pod.doubt.map(|doubt| *doubt))
}

#[test]
fn a_pod_that_the_kubelet_has_ended_is_dead_in_k3s_and_microk8s() {
    assert_eq!(after(|_| {}), (UidState::Dead, None));
    let kubelite = after(|pod| pod["metadata"]["managedFields"][0]["manager"] = json!("kubelite"));
    assert_eq!(kubelite, (UidState::Dead, None));
    let succeeded = after(|pod| {
        pod["status"]["phase"] = json!("Succeeded");
        pod["status"]["conditions"][1]["reason"] = json!("PodCompleted");
    });
    assert_eq!(succeeded, (UidState::Dead, None));
}

#[test]
fn a_phase_that_podgc_may_have_written_proves_no_death() {
    let restarting = after(|pod| pod["status"]["conditions"][1]["reason"] = json!("ContainersNotReady"));
    assert_eq!(restarting, (UidState::Retired, None), "the kubelet meant to start it again");
    let other = after(|pod| pod["status"]["conditions"][1]["reason"] = json!("PodCompleted"));
    assert_eq!(other, (UidState::Retired, None), "the kubelet would have said Succeeded");
    let orphaned = after(|pod| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}));
    });
    assert_eq!(orphaned, (UidState::Retired, None), "its node is gone");
    let out_of_service = after(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T01:17:00Z"));
    assert_eq!(out_of_service, (UidState::Retired, None), "it is terminating");
}

#[test]
fn an_eviction_by_the_kubelet_or_the_api_is_no_podgc() {
    for reason in ["TerminationByKubelet", "EvictionByEvictionAPI"] {
        let evicted = after(|pod| {
            let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(json!({"type": "DisruptionTarget", "status": "True", "reason": reason}));
        });
        assert_eq!(evicted, (UidState::Dead, None), "{reason}");
    }
}

#[test]
fn missing_evidence_is_named_once_the_containers_have_ended() {
    let unknown = after(|pod| pod["metadata"]["managedFields"][0]["manager"] = json!("microshift"));
    assert_eq!(unknown, (UidState::Retired, Some(Doubt::Writer("microshift".into()))));
    let old = after(|pod| pod["status"]["conditions"] = json!([]));
    assert_eq!(old, (UidState::Retired, Some(Doubt::SandboxCondition)));
    let running = after(|pod| {
        pod["metadata"]["managedFields"][0]["manager"] = json!("kube-controller-manager");
        pod["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
    });
    assert_eq!(running, (UidState::Retired, None));
}

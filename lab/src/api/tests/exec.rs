//! Commands in pods. Their outputs and exit codes are in `lab/tests/rootless/fleet`.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use serde_json::json;

use super::{Lab, pod};
use crate::api::{ApiError, Run};

#[tokio::test]
async fn a_command_in_no_pod_or_without_the_right_is_refused_and_a_lost_kubelet_is_a_status() {
    let lab = Lab::with(&[]).await;
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), "ns");
    let exec = async || {
        pods.exec("a", ["sh", "-c", "exit 3"], &AttachParams::default())
            .await
    };
    let message = async || {
        exec()
            .await
            .unwrap()
            .take_status()
            .unwrap()
            .await
            .unwrap()
            .message
            .unwrap()
    };
    assert!(exec().await.err().unwrap().to_string().contains("404"));
    lab.store.apply(pod("a")).unwrap();
    lab.server
        .api
        .execs
        .answer(|_| Run::Fails(ApiError::new(500, "InternalError", "error dialing backend")));
    assert_eq!(message().await, "error dialing backend");
    lab.server.api.execs.answer(|exec| {
        assert_eq!((&*exec.namespace, &*exec.pod), ("ns", "a"));
        let mut command = std::process::Command::new(&exec.command[0]);
        command.args(&exec.command[1..]);
        Run::Process(command)
    });
    assert_eq!(
        message().await,
        "command terminated with non-zero exit code: exit status 3"
    );
    // A websocket is a GET.
    let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]);
    lab.server
        .api
        .access
        .bind(&json!({"kind": "ClusterRole", "rules": rules}))
        .unwrap();
    assert!(exec().await.err().unwrap().to_string().contains("403"));
    assert_eq!(lab.server.api.access.refused(), ["create /pods/exec"]);
}

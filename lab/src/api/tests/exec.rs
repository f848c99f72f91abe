//! Commands in pods.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::{Lab, pod};
use crate::api::{ApiError, Run};

/// Standard output, standard error and the status of a command.
async fn exec(lab: &Lab, command: &[&str]) -> Result<[String; 3], kube::Error> {
    let pods: Api<Pod> = Api::namespaced(lab.client.clone(), "ns");
    let mut process = pods.exec("a", command.to_vec(), &AttachParams::default()).await?;
    let status = process.take_status().unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    process.stdout().unwrap().read_to_string(&mut out).await.unwrap();
    process.stderr().unwrap().read_to_string(&mut err).await.unwrap();
    let status = status.await.unwrap();
    Ok([out, err, status.message.or(status.status).unwrap()])
}

#[tokio::test]
async fn a_command_prints_to_both_outputs_and_has_an_exit_code() {
    let lab = Lab::with(&["a"]).await;
    lab.server.api.execs.answer(|exec| {
        assert_eq!((&*exec.namespace, &*exec.pod), ("ns", "a"));
        let mut command = std::process::Command::new(&exec.command[0]);
        command.args(&exec.command[1..]);
        Run::Process(command)
    });
    let long = "seq 1 50000; echo problem >&2; exit 3";
    let [out, err, status] = exec(&lab, &["sh", "-c", long]).await.unwrap();
    assert_eq!((out.lines().count(), out.lines().last()), (50_000, Some("50000")));
    assert_eq!(err, "problem\n");
    assert_eq!(status, "command terminated with non-zero exit code: exit status 3");
    let well = exec(&lab, &["true"]).await.unwrap();
    assert_eq!(well, ["", "", "Success"]);
}

#[tokio::test]
async fn a_command_in_no_pod_or_without_the_right_is_refused_and_a_lost_kubelet_is_a_status() {
    let lab = Lab::with(&[]).await;
    let refused = async || exec(&lab, &["true"]).await.unwrap_err().to_string();
    assert!(refused().await.contains("404"));
    lab.store.apply(pod("a")).unwrap();
    lab.server.api.execs.answer(|_| Run::Fails(ApiError::new(500, "InternalError", "error dialing backend")));
    assert_eq!(exec(&lab, &["true"]).await.unwrap()[2], "error dialing backend");
    // A websocket is a GET.
    let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]);
    lab.server.api.access.bind(&json!({"kind": "ClusterRole", "rules": rules})).unwrap();
    assert!(refused().await.contains("403"));
    assert_eq!(lab.server.api.access.refused(), ["create /pods/exec"]);
}

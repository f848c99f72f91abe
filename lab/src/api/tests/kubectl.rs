use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{Lab, pod};
use crate::api::{Kind, ObjectRef};

/// Runs kubectl against the lab. Returns its whole output, as an error if it failed.
pub(super) async fn kubectl(lab: &Lab, args: &str, stdin: &str) -> Result<String, String> {
    let config = std::env::temp_dir().join(format!("epguard-lab-api-{}", lab.server.address().port()));
    std::fs::write(&config, lab.server.kubeconfig()).unwrap();
    let mut child = Command::new("kubectl")
        .arg("--cache-dir")
        .arg(config.with_extension("cache"))
        .arg("--kubeconfig")
        .arg(&config)
        .args(args.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    std::fs::remove_file(&config).unwrap();
    std::fs::remove_dir_all(config.with_extension("cache")).ok();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    if output.status.success() { Ok(out) } else { Err(err) }
}

const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ns, labels: {app: a}}
spec:
  nodeName: node-a
  containers: [{name: c, image: one}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, namespace: ns}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2]}]
ports: [{port: 80}]
";

#[tokio::test]
#[ignore = "needs kubectl"]
async fn kubectl_applies_gets_patches_and_deletes() {
    let lab = Lab::start().await;
    lab.store.apply(json!({"kind": "Namespace", "metadata": {"name": "ns"}})).unwrap();
    let created = kubectl(&lab, "apply -f -", MANIFEST).await.unwrap();
    assert_eq!(created, "pod/a created\nendpointslice.discovery.k8s.io/s created\n");
    assert_eq!(kubectl(&lab, "apply -f -", MANIFEST).await.unwrap().matches("unchanged").count(), 2);
    let changed = MANIFEST.replace("one", "two").replace("10.244.1.2", "10.244.1.3");
    assert_eq!(kubectl(&lab, "apply -f -", &changed).await.unwrap().matches("configured").count(), 2);
    let pod = lab.store.get(&ObjectRef::pod("ns", "a")).unwrap();
    assert_eq!(pod["spec"]["containers"], json!([{"name": "c", "image": "two"}]));

    let shown = kubectl(&lab, "get pods,endpointslices -A -o json", "").await.unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(super::names(&shown), ["a", "s"]);
    kubectl(&lab, "patch pod a -n ns -p {\"metadata\":{\"labels\":{\"b\":\"2\"}}}", "").await.unwrap();
    kubectl(&lab, "label pod a -n ns app-", "").await.unwrap();
    assert_eq!(lab.store.get(&ObjectRef::pod("ns", "a")).unwrap()["metadata"]["labels"], json!({"b": "2"}));

    kubectl(&lab, "delete pod a -n ns --wait=false", "").await.unwrap();
    let marked = lab.store.get(&ObjectRef::pod("ns", "a")).unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    kubectl(&lab, "delete pod a -n ns --grace-period=0 --force", "").await.unwrap();
    kubectl(&lab, "delete endpointslice s -n ns", "").await.unwrap();
    assert_eq!((lab.store.list(Kind::Pod), lab.store.list(Kind::EndpointSlice)), (vec![], vec![]));
    let missing = kubectl(&lab, "get pod a -n ns", "").await.unwrap_err();
    assert_eq!(missing, "Error from server (NotFound): pods \"a\" not found\n");
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn a_kubectl_delete_waits_for_the_kubelet() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let target = ObjectRef::pod("ns", "a");
    let kubelet = async {
        let mut changed = lab.store.subscribe();
        while lab.store.get(&target).unwrap()["metadata"]["deletionTimestamp"].is_null() {
            changed.changed().await.unwrap();
        }
        lab.store.delete(&target, Some(0)).unwrap();
    };
    let (deleted, ()) = tokio::join!(kubectl(&lab, "delete pod a -n ns", ""), kubelet);
    assert!(deleted.unwrap().starts_with("pod \"a\" deleted"));
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn kubectl_explores_the_server() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    lab.store.apply(json!({"kind": "Node", "metadata": {"name": "node-a"}})).unwrap();
    assert!(kubectl(&lab, "version", "").await.unwrap().contains("epguard-lab"));
    let resources = kubectl(&lab, "api-resources --no-headers", "").await.unwrap();
    assert_eq!(resources.lines().count(), Kind::ALL.len());
    for args in ["get po -n ns", "get no node-a", "describe pod a -n ns", "get svc -A", "get cm,ev,ns -A"] {
        kubectl(&lab, args, "").await.unwrap_or_else(|e| panic!("kubectl {args}: {e}"));
    }
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn kubectl_shows_the_log_of_a_pod_that_has_one() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    lab.store.apply(pod("b")).unwrap();
    lab.server.logs().answer(|pod| (pod == "a").then(|| "started\n".to_owned()));
    assert_eq!(kubectl(&lab, "logs a -n ns", "").await.unwrap(), "started\n");
    let missing = kubectl(&lab, "logs b -n ns", "").await.unwrap_err();
    assert!(missing.contains("no kubelet has the log"), "{missing}");
}

#[tokio::test]
#[ignore = "needs kubectl"]
async fn kubectl_replaces_the_status_through_its_raw_path() {
    let lab = Lab::start().await;
    let mut object = lab.store.apply(pod("a")).unwrap();
    object["status"]["phase"] = "Failed".into();
    let path = "replace --raw /api/v1/namespaces/ns/pods/a/status -f -";
    kubectl(&lab, path, &object.to_string()).await.unwrap();
    assert_eq!(lab.store.get(&ObjectRef::pod("ns", "a")).unwrap()["status"]["phase"], "Failed");
}

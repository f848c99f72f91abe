//! The life of a release of `deploy/chart`, by Helm's own engine, at an API server.

use super::fleet::world::World;
use epguard_lab::api::Kind;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Makes calls of Helm. Returns their results, and the objects afterwards.
fn after(world: &World, calls: &Value) -> (Vec<Value>, Vec<Value>) {
    let mut command = Command::new(Path::new(ROOT).join("target/tools/helm/bin/python"));
    command
        .arg(Path::new(ROOT).join("deploy/helm.py"))
        .arg(&world.kubeconfig);
    let mut helm = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = helm.stdin.take().unwrap();
    input.write_all(calls.to_string().as_bytes()).unwrap();
    drop(input);
    let output = helm.wait_with_output().unwrap();
    assert!(output.status.success());
    (
        serde_json::from_slice(&output.stdout).unwrap(),
        objects(world),
    )
}

/// The objects after calls that went well.
fn released(calls: &Value) -> Vec<Value> {
    let (results, objects) = after(&World::empty(), calls);
    assert!(
        results.iter().all(|result| result["error"].is_null()),
        "{results:?}"
    );
    objects
}

/// All but Namespaces, which are no part of a release, without what servers and clients add.
fn objects(world: &World) -> Vec<Value> {
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Namespace);
    let plain = |mut object: Value| {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| ["name", "namespace", "labels"].contains(&key.as_str()));
        metadata["labels"]
            .as_object_mut()
            .unwrap()
            .remove("app.kubernetes.io/managed-by");
        object
    };
    kinds
        .flat_map(|kind| world.store.list(*kind))
        .map(plain)
        .collect()
}

fn agents_arguments(objects: &[Value]) -> String {
    let set = objects
        .iter()
        .find(|object| object["kind"] == "DaemonSet")
        .unwrap();
    set["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
}

const INSTALL: &str = r#"["install", {}]"#;
const UPGRADE: &str = r#"["upgrade", {"agent": {"lease": 20}, "modePolicy": {"mode": "enforce"}}]"#;
const ROLLBACK: &str = r#"["rollback", {}, {"version": 1}]"#;
const UNINSTALL: &str = r#"["uninstall", {}]"#;
const INSTALL_EDGE: &str =
    r#"["install", {"nodeSelector": {"pool": "edge"}}, {"release": "epguard-edge"}]"#;
const UNINSTALL_EDGE: &str = r#"["uninstall", {}, {"release": "epguard-edge"}]"#;

fn calls(of: &[&str]) -> Value {
    of.iter()
        .map(|call| serde_json::from_str::<Value>(call).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm's engine and kubectl: cargo xtask setup installs them"]
async fn kubectl_apply_and_helm_give_the_same_objects() {
    let world = World::empty();
    let file = Path::new(ROOT).join("deploy/epguard.yaml");
    let mut kubectl = Command::new("kubectl");
    kubectl
        .arg("--kubeconfig")
        .arg(&world.kubeconfig)
        .args(["apply", "-f"])
        .arg(file);
    let output = kubectl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let applied = objects(&world);
    assert_eq!(applied.len(), 8);
    assert_eq!(applied, released(&calls(&[INSTALL])));
    let (taken_over, objects) = after(&world, &json!([["install", {}, {"take_ownership": true}]]));
    assert_eq!(
        (&taken_over[0]["status"], objects),
        (&json!("deployed"), applied)
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
async fn a_release_is_upgraded_rolled_back_and_uninstalled_without_a_rest() {
    let installed = released(&calls(&[INSTALL]));
    let upgraded = released(&calls(&[INSTALL, UPGRADE]));
    assert!(agents_arguments(&upgraded).contains("--lease=20"));
    let policy = upgraded
        .iter()
        .find(|object| object["kind"] == "ConfigMap")
        .unwrap();
    assert_eq!(policy["data"], json!({"mode": "enforce"}));
    assert_eq!(released(&calls(&[INSTALL, UPGRADE, ROLLBACK])), installed);
    assert_eq!(
        released(&calls(&[INSTALL, UPGRADE, ROLLBACK, UNINSTALL])),
        [Value::Null; 0]
    );
}

/// `kubectl epguard mode` makes a `ConfigMap` that belongs to no release.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
async fn an_upgrade_leaves_the_modes_that_the_plugin_has_set_and_refuses_to_take_them_over() {
    let world = World::empty();
    let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"mode": "off"},
        "metadata": {"name": "epguard", "namespace": "epguard", "labels": {}}});
    world.store.apply(policy.clone()).unwrap();
    let other_lease = r#"["upgrade", {"agent": {"lease": 20}}]"#;
    let (results, objects) = after(&world, &calls(&[INSTALL, other_lease, UPGRADE]));
    assert!(agents_arguments(&objects).contains("--lease=20"));
    assert!(objects.contains(&policy), "{objects:?}");
    let error = results[2]["error"].as_str().unwrap();
    assert!(
        error.contains(
            r#"ConfigMap "epguard" in namespace "epguard" exists and cannot be imported"#
        ),
        "{error}"
    );
    assert!(
        results[..2].iter().all(|result| result["error"].is_null()),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
async fn a_second_release_for_a_node_pool_comes_and_goes_without_touching_the_first() {
    let alone = released(&calls(&[INSTALL]));
    let both = released(&calls(&[INSTALL, INSTALL_EDGE]));
    assert_eq!(both.len(), 2 * alone.len());
    assert!(alone.iter().all(|object| both.contains(object)));
    assert_eq!(
        released(&calls(&[INSTALL, INSTALL_EDGE, UNINSTALL_EDGE])),
        alone
    );
}

/// One mode policy and one dashboard are about all agents.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
async fn a_second_release_cannot_take_what_is_about_all_agents() {
    for (values, object) in [
        (
            json!({"modePolicy": {"mode": "observe"}}),
            r#"ConfigMap "epguard""#,
        ),
        (
            json!({"metrics": {"dashboard": true}}),
            r#"ConfigMap "epguard-dashboard""#,
        ),
    ] {
        let second = json!(["install", values, {"release": "epguard-edge"}]);
        let (results, _) = after(&World::empty(), &json!([["install", values], second]));
        assert!(results[0]["error"].is_null(), "{results:?}");
        let error = results[1]["error"].as_str().unwrap();
        let refused = format!(r#"{object} in namespace "epguard" exists and cannot be imported"#);
        assert!(error.contains(&refused), "{error}");
    }
}

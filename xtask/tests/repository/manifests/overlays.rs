//! The objects that `kubectl apply -k` sends.

use super::{deploy, documents, schema};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};
use std::process::Command;

const BASE: [&str; 7] =
    ["ClusterRole", "ClusterRoleBinding", "DaemonSet", "Namespace", "Role", "RoleBinding", "ServiceAccount"];

/// The objects of an overlay. Panics if Kubernetes 1.36 does not know all their fields.
fn render(overlay: &str) -> Vec<Value> {
    let folder = deploy().join("overlays").join(overlay);
    let rendered = Command::new("kubectl").arg("kustomize").arg(&folder).output().unwrap();
    let error = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success(), "{overlay}: {error}");
    let text = String::from_utf8(rendered.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in &objects {
        schema::check(object);
    }
    objects
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    kinds
}

fn agent(objects: &[Value]) -> Container {
    let found = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let daemon_set: DaemonSet = schema::read(found);
    let mut pod = daemon_set.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers.len(), 1);
    pod.containers.remove(0)
}

fn env(container: &Container, name: &str) -> Option<String> {
    let variables = container.env.as_ref().unwrap();
    variables.iter().find(|variable| variable.name == name)?.value.clone()
}

#[test]
#[ignore = "needs kubectl: cargo xtask setup installs it"]
fn observe_and_enforce_differ_in_the_mode_alone() {
    let (observe, enforce) = (render("observe"), render("enforce"));
    assert_eq!(kinds(&observe), BASE);
    assert_eq!(env(&agent(&observe), "MODE").as_deref(), Some("observe"));
    assert_eq!(env(&agent(&enforce), "MODE").as_deref(), Some("enforce"));
    assert!(agent(&observe).args.unwrap().contains(&"--mode=$(MODE)".into()));
    let text = serde_json::to_string(&enforce).unwrap();
    let back: Value = serde_json::from_str(
        &text.replace(r#""name":"MODE","value":"enforce""#, r#""name":"MODE","value":"observe""#),
    )
    .unwrap();
    assert_eq!(sorted_env(back), sorted_env(json!(observe)));
}

/// kubectl versions put a patched variable in different places.
fn sorted_env(mut objects: Value) -> Value {
    for object in objects.as_array_mut().unwrap() {
        let container = object.pointer_mut("/spec/template/spec/containers/0/env");
        if let Some(variables) = container.and_then(Value::as_array_mut) {
            variables.sort_by_key(|variable| variable["name"].to_string());
        }
    }
    objects
}

#[test]
#[ignore = "needs kubectl: cargo xtask setup installs it"]
fn only_the_overlay_privileged_has_more_than_the_named_capabilities() {
    for overlay in ["observe", "enforce", "monitoring", "privileged"] {
        let objects = render(overlay);
        let security = json!(agent(&objects).security_context.unwrap());
        let named = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"], "add": ["BPF", "NET_ADMIN", "PERFMON"]},
            "appArmorProfile": {"type": "Unconfined"},
            "seccompProfile": {"type": "Unconfined"},
            "seLinuxOptions": {"type": "spc_t"},
        });
        let all = json!({"privileged": true, "readOnlyRootFilesystem": true});
        let expected = if overlay == "privileged" { all } else { named };
        assert_eq!(security, expected, "{overlay}");
    }
    assert_eq!(kinds(&render("privileged")), BASE);
}

#[test]
#[ignore = "needs kubectl: cargo xtask setup installs it"]
fn monitoring_serves_metrics_where_prometheus_asks_and_health_stays_on_loopback() {
    let objects = render("monitoring");
    let extra = ["ConfigMap", "PrometheusRule", "Service", "ServiceMonitor"];
    let mut all = [&BASE[..], &extra[..]].concat();
    all.sort_unstable();
    assert_eq!(kinds(&objects), all);
    let agent = agent(&objects);
    assert_eq!(env(&agent, "METRICS_LISTEN").as_deref(), Some("$(HOST_IP):9467"));
    let names: Vec<&str> = agent.env.as_ref().unwrap().iter().map(|v| &*v.name).collect();
    let place = |name| names.iter().position(|other| *other == name);
    assert!(place("HOST_IP") < place("METRICS_LISTEN"), "a variable may only name an earlier one: {names:?}");
    for probe in [agent.startup_probe, agent.liveness_probe, agent.readiness_probe] {
        let get = probe.unwrap().http_get.unwrap();
        assert_eq!((get.host.as_deref(), json!(get.port)), (Some("127.0.0.1"), json!(9468)));
    }
    let service = objects.iter().find(|object| object["kind"] == "Service").unwrap();
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 9467);
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let dashboard: Value = serde_json::from_str(map["data"]["dashboard.json"].as_str().unwrap()).unwrap();
    assert_eq!(dashboard["title"], "epguard");
}

#[test]
fn every_file_of_an_overlay_is_used_by_it() {
    for overlay in ["observe", "enforce", "privileged", "monitoring"] {
        let listed = documents(&format!("overlays/{overlay}/kustomization.yaml"))[0].to_string();
        let files = std::fs::read_dir(deploy().join("overlays").join(overlay)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| name != "kustomization.yaml" && !name.contains("_test")) {
            assert!(listed.contains(&name), "{overlay}: {name}");
        }
    }
}

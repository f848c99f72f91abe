//! Checks that do not come to their end leave nothing, or say what they leave.

use super::rig::Rig;
use epguard_client::shared::calls::MANAGED_BY;
use epguard_lab::api::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn an_interrupted_check_removes_what_it_has_made() {
    let mut rig = Rig::new("{mode: observe}");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut is_sent = false;
        let ended = rig.run_while("check", |rig, child| {
            if !is_sent && rig.pod("stranger-1").is_some() {
                is_sent = true;
                let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
                kill(pid, signal).unwrap();
            }
        });
        assert_eq!((ended.code, &*ended.out), (2, ""), "{ended:?}");
        assert!(ended.err.ends_with("epguard: interrupted\n"), "{ended:?}");
        assert!(is_sent);
        rig.is_clean();
    }
}

/// The API server may carry out a request to make it that was given up.
#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_namespace_that_comes_late_is_removed_too() {
    let mut rig = Rig::new("{mode: observe}");
    let store = rig.stage.cluster.store.clone();
    let mut late = None;
    let mut is_interrupted = false;
    let ended = rig.run_while("check", |rig, child| {
        if !is_interrupted && rig.pod("stranger-1").is_some() {
            is_interrupted = true;
            late = rig.namespaces().pop();
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            kill(pid, Signal::SIGINT).unwrap();
        }
        if rig.namespaces().is_empty()
            && let Some(name) = late.take()
        {
            let labels = json!({MANAGED_BY.0: MANAGED_BY.1});
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
            });
            store.apply(namespace).unwrap();
        }
    });
    assert!(is_interrupted && late.is_none());
    assert!(ended.err.ends_with("epguard: interrupted\n"), "{ended:?}");
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn what_a_killed_check_has_left_is_named_and_removed_by_clean() {
    let mut rig = Rig::new("{mode: observe}");
    let ended = rig.run_while("check", |rig, child| {
        if rig.pod("stranger-1").is_some() {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            kill(pid, Signal::SIGKILL).unwrap();
        }
    });
    assert_eq!(ended.code, -1);
    let left = rig.namespaces();
    assert_eq!(left.len(), 2, "{left:?}");
    // A namespace of a user that only looks like one.
    let store = rig.stage.cluster.store.clone();
    store.ensure_namespace("epguard-check-mine").unwrap();

    let second = rig.run("check");
    assert_eq!(second.code, 2, "{second:?}");
    let named = format!(
        "nothing is made: another check has the namespace {}: ",
        left[0]
    );
    assert!(second.err.contains(&named), "{second:?}");
    assert!(
        second.err.contains("`kubectl epguard check --clean`"),
        "{second:?}"
    );

    let cleaned = rig.run("check --clean");
    assert_eq!(cleaned.code, 0, "{cleaned:?}");
    assert_eq!(
        cleaned.out,
        format!("removed 2 namespaces: {}\n", left.join(", "))
    );
    assert_eq!(rig.namespaces(), ["epguard-check-mine"]);
    let again = rig.run("check --clean");
    assert_eq!(again.out, "no check has left a namespace\n");
    store
        .remove(&epguard_lab::api::ObjectRef::new(
            Kind::Namespace,
            "",
            "epguard-check-mine",
        ))
        .unwrap();
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn kept_namespaces_are_named() {
    let mut rig = Rig::new("{mode: observe}");
    let ended = rig.run("check --keep");
    assert_eq!(ended.code, 0, "{ended:?}");
    let left = rig.namespaces();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        ended
            .err
            .contains(&format!("keeps {}: remove", left.join(", "))),
        "{ended:?}"
    );
    assert!(rig.pod("finished-").is_some() && rig.pod("call-1-pod").is_some());
    assert_eq!(rig.run("check --clean").code, 0);
    rig.is_clean();
}

/// The `ClusterRole` of the page, and what the operators of epguard have beside it.
fn roles() -> [Value; 2] {
    let page = include_str!("../../../../docs/check.md");
    let (_, yaml) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let documented: Value = serde_saphyr::from_str(yaml).unwrap();
    let operator = json!({"kind": "Role", "metadata": {"namespace": "epguard"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
    ]});
    [documented, operator]
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn the_documented_rights_are_enough_and_missing_ones_are_named_before_anything_is_made() {
    let mut rig = Rig::new("{mode: observe}");
    let [documented, operator] = roles();
    let access = |rig: &Rig, role: &Value| rig.stage.cluster.api.api.access.bind(role).unwrap();
    access(&rig, &operator);
    let refused = rig.run("check");
    assert_eq!(refused.code, 2, "{refused:?}");
    let line = refused.err.lines().last().unwrap();
    assert_eq!(
        line,
        "epguard: nothing is made: the account may not list namespaces, create namespaces, delete namespaces, list pods, \
         create pods, create services, create jobs, list endpointslices, create endpointslices and create networkpolicies: \
         bind the ClusterRole epguard-check of docs/check.md to it"
    );
    rig.is_clean();
    access(&rig, &documented);
    let ended = rig.run("check");
    assert_eq!(ended.code, 0, "{ended:?}");
    rig.is_clean();
}

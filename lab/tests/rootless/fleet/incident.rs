//! `kubectl epguard action` and `breaker`, and what they and `mode` wait for.

use super::world::{World, condition, expect, node_of, prints, says, status};
use epguard::shared::status::{ActionInForce, ActionSource, Status, StoppedDenials};
use epguard_common::{Action, Mode};
use epguard_core::facts::Watched;
use epguard_core::state::StopReason;
use epguard_lab::api::{Exec, Kind, ObjectRef, Run, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;

fn config_map(store: &Store) -> Value {
    let map = ObjectRef::new(Kind::ConfigMap, "epguard", "epguard");
    store.get(&map).unwrap_or_default()
}

fn data(world: &World) -> Value {
    config_map(&world.store)["data"].clone()
}

/// The `ConfigMap` with this data, as this field manager writes it.
fn written_by(manager: &str, data: &Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data,
        "metadata": {"name": "epguard", "namespace": "epguard", "managedFields": [
            {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T10:00:00Z",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:mode": {}}}}]}})
}

/// An agent that has the `ConfigMap` in its maps.
fn following(store: &Store, node: &str) -> Status {
    let map = config_map(store);
    let mut status = status(node);
    let version = map["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    status.applied = [(Watched::ModePolicy, version.parse().unwrap())].into();
    let text = |key: &str| map["data"][key].as_str();
    if let Some(mode) = text("mode").and_then(Mode::from_name) {
        status.mode = Some(mode);
    }
    for (reason, action) in &mut status.actions {
        let of_reason = text(&format!("{reason}-action"));
        if let Some(set) = of_reason.or(text("action")).and_then(Action::from_name) {
            *action = ActionInForce {
                action: set,
                source: ActionSource::ModePolicy,
            };
        }
    }
    status
}

/// Agents that follow, each status after this change.
fn answers(world: &World, change: impl Fn(&Exec, &mut Status) + Send + Sync + 'static) {
    let store = world.store.clone();
    world.answers(move |exec| {
        let mut status = following(&store, node_of(exec));
        change(exec, &mut status);
        match exec.command[1].as_str() {
            "breaker" => prints(&status.breaker, 0),
            _ => condition(status),
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clusters_actions_are_keys_of_the_config_map_and_every_node_follows() {
    let world = World::new();
    answers(&world, |_, _| {});
    let mut outputs = Vec::new();
    for (words, after) in [
        ("action", json!(null)),
        ("action reject", json!(null)),
        (
            "action reject terminated=drop -y",
            json!({"action": "reject", "terminated-action": "drop"}),
        ),
        (
            "action",
            json!({"action": "reject", "terminated-action": "drop"}),
        ),
        (
            "action drop --canary -y",
            json!({"action": "reject", "canary-action": "drop", "terminated-action": "drop"}),
        ),
        (
            "action --unset --canary -y",
            json!({"action": "reject", "terminated-action": "drop"}),
        ),
        (
            "action reject -y",
            json!({"action": "reject", "terminated-action": "drop"}),
        ),
        (
            "mode observe -y",
            json!({"action": "reject", "mode": "observe", "terminated-action": "drop"}),
        ),
        (
            "action --unset -y",
            json!({"mode": "observe", "terminated-action": "drop"}),
        ),
        (
            "action --unset --reason terminated -y",
            json!({"mode": "observe"}),
        ),
    ] {
        let output = world.run(words).await;
        outputs.push(format!("{words}: {output}"));
        assert_eq!(data(&world), after, "{output}");
    }
    expect("action.txt", &outputs.join("\n"));
    let (code, changed, _) = world.document("action reject -y").await;
    assert_eq!((code, &changed["following"]), (Some(0), &json!(3)));
    let (code, shown, _) = world.document("action").await;
    assert_eq!(
        (code, &shown["keys"]["action"]),
        (Some(0), &json!("reject"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_ends_once_the_last_node_has_the_change_in_its_maps() {
    let world = World::new();
    let late = Mutex::new(3);
    answers(&world, move |exec, status| {
        let has_changed = status.mode == Some(Mode::Enforce);
        let mut left = late.lock().unwrap();
        if has_changed && node_of(exec) == "worker-2" && *left > 0 {
            *left -= 1;
            status.applied = [(Watched::ModePolicy, 1)].into();
        }
    });
    let output = world.run("mode enforce -y").await;
    assert!(output.starts_with("exit code 0\n"), "{output}");
    let last = output.lines().last();
    assert!(
        last.is_some_and(|line| line.starts_with("3 of 3 nodes follow (")),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_do_not_follow_in_time_are_named_with_the_cause() {
    let world = World::new();
    for node in ["worker-4", "worker-5"] {
        world.node(node);
        world.agent(node);
    }
    let mut other = super::world::pod("worker-5");
    other["spec"]["containers"][0]["args"][3] = "--mode-policy=team/other".into();
    world.store.apply(other).unwrap();
    let store = world.store.clone();
    world.answers(move |exec| {
        let mut status = following(&store, node_of(exec));
        let has_changed = status.mode == Some(Mode::Enforce);
        match node_of(exec) {
            "worker-2" if has_changed => return Run::Hangs,
            "worker-3" => {
                status.mode_policy = Some(
                    "a mode was set by hand, until ConfigMap epguard/epguard changes".to_owned(),
                );
            }
            "worker-4" => status.applied = BTreeMap::new(),
            _ => {}
        }
        condition(status)
    });
    let output = world.run("mode enforce -y --timeout 1").await;
    assert_eq!(data(&world), json!({"mode": "enforce"}));
    expect("follow-not.txt", &output);
    let (code, document, _) = world.document("mode enforce -y --timeout 1").await;
    assert_eq!((code, &document["written"]), (Some(1), &json!(false)));
    assert_eq!(document["following"], 1);
    let others = document["notFollowing"].as_array().unwrap();
    let why = "it watches ConfigMap team/other";
    assert_eq!(others[3], json!({"node": "worker-5", "why": why}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gitops_controller_is_named_before_the_change_and_when_it_has_taken_it_back() {
    let world = World::new();
    let argo = written_by("argocd-controller", &json!({"mode": "enforce"}));
    world.store.apply(argo.clone()).unwrap();
    let store = world.store.clone();
    answers(&world, move |_, status| {
        // It heals itself.
        if status.mode == Some(Mode::Observe) {
            store.apply(argo.clone()).unwrap();
        }
    });
    let shown = world.run("mode").await;
    let changed = world.run("mode observe -y").await;
    let (code, document, _) = world.document("mode observe -y").await;
    assert_eq!(code, Some(1));
    assert_eq!(
        document["takenBack"],
        json!({"key": "mode", "found": "enforce", "by": "argocd-controller"})
    );
    assert_eq!(data(&world), json!({"mode": "enforce"}));
    expect("gitops.txt", &[shown, changed].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_do_not_know_the_keys_get_none() {
    let world = World::new();
    answers(&world, |exec, status| {
        if node_of(exec) == "worker-2" {
            status.actions.clear();
            status.breaker = vec![stopped("shop/web", 0)];
        }
    });
    let action = world.run("action reject -y").await;
    let release = world.run("breaker --release -y").await;
    assert_eq!(data(&world), Value::Null);
    expect("older-agents.txt", &[action, release].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_action_of_chosen_nodes_is_switched_by_their_agents_and_their_breaker_released() {
    let world = World::new();
    world.answers(|exec| match exec.command.join(" ").as_str() {
        "epguard action reject --reason reused" | "epguard breaker --release shop/web" => {
            says("", "", 0)
        }
        _ => condition(status(node_of(exec))),
    });
    let mut outputs = Vec::new();
    for words in [
        "action reused=reject --node worker-1 -y",
        "action --node worker-1",
        "action reject terminated=drop --node worker-1 -y",
        "action reject --canary --node worker-1 -y",
        "breaker --release shop/web --node worker-1,worker-2 -y",
    ] {
        outputs.push(world.run(words).await);
    }
    assert_eq!(data(&world), Value::Null);
    expect("action-nodes.txt", &outputs.join("\n"));
}

fn stopped(service: &str, resource_version: u64) -> StoppedDenials {
    StoppedDenials {
        service: service.into(),
        stopped: 3,
        ready_recently: 4,
        since_ms: 12_000,
        resource_version,
        why: StopReason::MoreThanHalf,
    }
}

/// `shop/web` is stopped on two nodes, until it is released; `shop/cart` on one, and again later.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_written_for_what_is_shown_and_every_node_carries_it_out() {
    let world = World::new();
    let store = world.store.clone();
    answers(&world, move |exec, status| {
        let released = config_map(&store)["data"]["breaker-release"].clone();
        let is_released = released == "44 shop/web";
        match node_of(exec) {
            "worker-1" => status.breaker = vec![stopped("shop/cart", 50), stopped("shop/web", 44)],
            "worker-2" => status.breaker = vec![stopped("shop/web", 43)],
            _ => {}
        }
        status
            .breaker
            .retain(|found| found.service != "shop/web" || !is_released);
        if is_released && node_of(exec) == "worker-2" {
            // Stopped later.
            status.breaker = vec![stopped("shop/web", 60)];
        }
    });
    let mut outputs = Vec::new();
    for words in [
        "breaker",
        "breaker --release shop/none -y",
        "breaker --release shop/web",
        "breaker --release shop/web -y",
        "breaker",
    ] {
        let output = world.run(words).await;
        outputs.push(format!("{words}: {output}"));
    }
    assert_eq!(data(&world), json!({"breaker-release": "44 shop/web"}));
    let (code, nothing, _) = world.document("breaker --release shop/none -y").await;
    assert_eq!((code, &nothing["written"]), (Some(0), &json!(false)));
    assert_eq!(nothing["changes"], json!([]));
    assert_eq!(nothing["following"], 0);
    assert_eq!(nothing["notFollowing"], json!([]));
    expect("breaker.txt", &outputs.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_on_stopping_what_is_released_does_not_follow() {
    let world = World::new();
    answers(&world, |exec, status| {
        if node_of(exec) == "worker-3" {
            status.breaker = vec![stopped("shop/web", 7)];
        }
    });
    let output = world.run("breaker --release -y --timeout 1").await;
    assert_eq!(data(&world), json!({"breaker-release": "7"}));
    assert!(output.starts_with("exit code 1\n"), "{output}");
    assert!(
        output.contains("\nworker-3 does not follow: it still stops denials of shop/web\n"),
        "{output}"
    );
}

//! `kubectl epguard mode`.

use super::world::{World, condition, expect, node_of, says, status};
use epguard::shared::status::ModeSource;
use epguard_common::Mode;
use epguard_lab::api::{Exec, Kind, ObjectRef, Run};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

fn agents(world: &World) {
    let canary = json!({"metadata": {"labels": {"epguard.io/canary": "true"}}});
    world
        .store
        .patch(&ObjectRef::new(Kind::Node, "", "worker-3"), &canary)
        .unwrap();
    world.answers(|exec| {
        let mut status = status(node_of(exec));
        match (node_of(exec), exec.command[1].as_str()) {
            (_, "mode") => return switched(exec),
            ("worker-3", _) => {
                status.mode = Some(Mode::Enforce);
                status.mode_source = ModeSource::Canary;
            }
            _ => {}
        }
        condition(status)
    });
}

fn switched(exec: &Exec) -> Run {
    assert_eq!(
        exec.command,
        ["epguard", "mode", "enforce", "--reason", "reused"]
    );
    let failed = node_of(exec) == "worker-2";
    let error = if failed {
        "epguard: no datapath is pinned at /sys/fs/bpf/epguard\n"
    } else {
        ""
    };
    says("", error, failed.into())
}

fn data(world: &World) -> Value {
    let map = world
        .store
        .get(&ObjectRef::new(Kind::ConfigMap, "epguard", "epguard"));
    map.map_or(Value::Null, |map| map["data"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clusters_mode_is_a_key_of_the_config_map_and_the_change_is_shown_first() {
    let world = World::new();
    agents(&world);
    let before = world.run("mode").await;
    let unasked = world.run("mode observe").await;
    assert_eq!(
        data(&world),
        Value::Null,
        "nothing is written without a yes"
    );
    let made = world.run("mode observe --yes").await;
    assert_eq!(data(&world), json!({"mode": "observe"}));
    let canary = world.run("mode enforce --canary --yes").await;
    let all = world.run("mode enforce -y").await;
    let reason = world.run("mode off --reason terminated -y").await;
    assert_eq!(
        data(&world),
        json!({"mode": "enforce", "canary-mode": "enforce", "terminated": "off"})
    );
    let again = world.run("mode enforce").await;
    let unset = world.run("mode --unset --canary -y").await;
    assert_eq!(
        data(&world),
        json!({"mode": "enforce", "terminated": "off"})
    );
    let after = world.run("mode").await;
    let all = [
        before, unasked, made, canary, all, reason, again, unset, after,
    ];
    expect("mode.txt", &all.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_of_chosen_nodes_is_switched_by_their_agents() {
    let world = World::new();
    agents(&world);
    let nodes = world
        .run("mode enforce --reason reused --node worker-1,worker-2 -y")
        .await;
    let shown = world.run("mode --node worker-3").await;
    expect("mode-nodes.txt", &[nodes, shown].join("\n"));
    assert_eq!(data(&world), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_and_its_change_are_one_document_for_scripts_beside_the_plan() {
    let world = World::new();
    agents(&world);
    let (code, nothing, _) = world.document("mode --unset -y").await;
    assert_eq!((code, &nothing["written"]), (Some(0), &json!(false)));
    assert_eq!(nothing["following"], 0);
    assert_eq!(nothing["notFollowing"], json!([]));
    let (code, changed, beside) = world.document("mode observe -y").await;
    assert_eq!(code, Some(0));
    assert_eq!(
        changed["changes"],
        json!([{"key": "mode", "before": null, "after": "observe"}])
    );
    let canary = json!([{"node": "worker-3", "mode": "enforce", "setBy": "mode policy, canary"}]);
    for (field, value) in [
        ("configMap", json!("epguard/epguard")),
        ("written", json!(true)),
        ("following", json!(3)),
        ("notFollowing", json!([])),
        ("higherMode", canary),
        ("takenBack", Value::Null),
    ] {
        assert_eq!(changed[field], value, "{field}");
    }
    let plan = "ConfigMap epguard/epguard: mode: not set -> observe\nnow:\n";
    assert!(beside.starts_with(plan), "{beside}");

    let (code, shown, beside) = world.document("mode").await;
    assert_eq!((code, &*beside), (Some(0), ""));
    assert_eq!(shown["keys"], json!({"mode": "observe"}));
    assert_eq!(shown["nodes"][2]["answer"]["status"]["mode"], "enforce");

    let words = "mode enforce --reason reused --node worker-1,worker-2 -y";
    let (code, switched, _) = world.document(words).await;
    assert_eq!(code, Some(2));
    assert_eq!(switched["switched"], json!(["worker-1"]));
    assert_eq!(switched["missing"][0]["node"], "worker-2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_document_nobody_would_read_is_not_made() {
    let world = World::new();
    agents(&world);
    for words in [
        "mode observe -y -o json",
        "mode enforce --reason reused --node worker-1 -y -o json",
    ] {
        let left = world.leave(words).await;
        assert_eq!(
            String::from_utf8(left.stderr).unwrap(),
            "epguard: nothing is changed: standard output has no reader, so nobody would see who follows\n"
        );
        assert_eq!(left.status.code(), Some(2), "{words}");
    }
    assert_eq!(data(&world), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_after_the_change_leaves_an_error_that_names_it() {
    let world = World::new();
    let reader = Arc::new(Mutex::new(None));
    let leaving = Arc::clone(&reader);
    let store = world.store.clone();
    world.answers(move |exec| {
        let map = ObjectRef::new(Kind::ConfigMap, "epguard", "epguard");
        if store.get(&map).is_some() {
            drop(leaving.lock().unwrap().take());
        }
        condition(status(node_of(exec)))
    });
    let mut child = world
        .command("mode observe -y -o json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    *reader.lock().unwrap() = child.stdout.take();
    let done = tokio::task::spawn_blocking(move || child.wait_with_output());
    let done = done.await.unwrap().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(
        stderr.contains("\nepguard: the change is written; Broken pipe"),
        "{stderr}"
    );
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(data(&world), json!({"mode": "observe"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_may_not_be_read_or_written_is_named_with_the_right() {
    let world = World::new();
    agents(&world);
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    world.allow(&json!([
        rule("pods", &["list"]),
        rule("pods/exec", &["get", "create"])
    ]));
    let read = world.run("mode observe -y").await;
    world.allow(&json!([rule("configmaps", &["get"])]));
    let write = world.run("mode observe -y").await;
    expect("mode-rights.txt", &[read, write].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_nodes_never_become_the_whole_cluster_wherever_the_flag_stands() {
    let world = World::new();
    agents(&world);
    world.run("mode observe -y").await;
    let mut outputs = Vec::new();
    for attempt in [
        "--node worker-1 mode enforce -y",
        "mode --node worker-1 --unset -y",
        "mode --unset -y --selector pool=edge",
        "mode enforce --node worker-1 --canary -y",
        "mode enforce --node worker-1 -l pool=edge -y",
        "mode enforce --node nowhere -y",
    ] {
        outputs.push(world.run(attempt).await);
        assert_eq!(data(&world), json!({"mode": "observe"}), "{attempt}");
    }
    expect("mode-order.txt", &outputs.join("\n"));
}

/// The `ConfigMap`, with this data.
fn map(data: &Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "epguard", "namespace": "epguard"}, "data": data})
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_switched_by_hand_and_nodes_that_follow_another_config_map_are_named() {
    let world = World::new();
    world.node("worker-4");
    for (node, map) in [
        ("worker-3", "--mode-policy=$(MAPS)/other"),
        ("worker-4", "--verbose"),
    ] {
        let mut pod = super::world::pod(node);
        let container = &mut pod["spec"]["containers"][0];
        container["args"][3] = map.into();
        let maps = json!({"name": "MAPS", "value": "team"});
        container["env"].as_array_mut().unwrap().push(maps);
        world.store.apply(pod).unwrap();
    }
    world.store.apply(map(&json!({"mode": "observe"}))).unwrap();
    world.answers(|exec| {
        let mut status = status(node_of(exec));
        if node_of(exec) != "worker-1" {
            status.mode = Some(Mode::Off);
        }
        let by_hand = "a mode was set by hand, until ConfigMap epguard/epguard changes";
        status.mode_policy = (node_of(exec) == "worker-2").then(|| by_hand.to_owned());
        condition(status)
    });
    let shown = world.run("status").await;
    let modes = world.run("mode").await;
    let changed = world.run("mode enforce").await;
    let other = world.run("mode enforce --canary").await;
    expect("mode-plan.txt", &[shown, modes, changed, other].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_config_map_of_most_agents_is_changed_while_a_rollout_names_another() {
    let world = World::new();
    let mut pod = super::world::pod("worker-1");
    pod["spec"]["containers"][0]["args"][3] = "--mode-policy=team/other".into();
    world.store.apply(pod).unwrap();
    world.store.apply(map(&json!({"mode": "enforce"}))).unwrap();
    let output = world.run("mode off --yes").await;
    assert!(
        output.starts_with("exit code 1\n")
            && output.ends_with("\nworker-1 does not follow: it watches ConfigMap team/other\n"),
        "{output}"
    );
    assert_eq!(data(&world), json!({"mode": "off"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_changes_meanwhile_is_not_overwritten() {
    let world = World::new();
    world.store.apply(map(&json!({"mode": "observe"}))).unwrap();
    let store = world.store.clone();
    world.answers(move |exec| {
        // Another operator is faster.
        store.apply(map(&json!({"mode": "off"}))).unwrap();
        condition(status(node_of(exec)))
    });
    let output = world.run("mode enforce -y").await;
    assert_eq!(data(&world), json!({"mode": "off"}));
    expect("mode-conflict.txt", &output);
}

//! `drops -f`: streams of all nodes.

use super::denials::dropped;
use super::world::{World, expect, node_of, one_hangs_one_is_gone};
use epguard::shared::drops::Dropped;
use epguard_lab::api::{ApiError, ObjectRef, Run};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A process that prints an empty list, then one new denial, and then empty lists again and again.
fn prints_lists() -> Run {
    let new = list(&dropped("shop/web", 4));
    shell(&format!(
        "echo '[]'; sleep 0.1; printf '%s\\n' '{new}'; while sleep 0.1; do echo '[]'; done"
    ))
}

pub fn shell(script: &str) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Run::Process(command)
}

pub fn list(dropped: &Dropped) -> String {
    serde_json::to_string(&[dropped]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_denials_of_all_nodes_are_followed_and_lost_nodes_are_named() {
    let world = World::new("follow");
    world
        .server
        .execs()
        .answer(|exec| one_hangs_one_is_gone(exec, |_| prints_lists()));
    let mut command = world.command(&["drops", "-f", "--timeout", "1"]);
    let lines = tokio::task::spawn_blocking(move || {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let first = |from: Box<dyn std::io::Read>, count| {
            BufReader::new(from)
                .lines()
                .take(count)
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        };
        let out = first(Box::new(child.stdout.take().unwrap()), 1);
        let mut lost = first(Box::new(child.stderr.take().unwrap()), 2);
        child.kill().unwrap();
        child.wait().unwrap();
        lost.sort();
        [out, lost].concat()
    });
    expect("follow.txt", &lines.await.unwrap().join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_ends_it() {
    let world = World::new("reader");
    world.server.execs().answer(|_| prints_lists());
    let mut command = world.command(&["drops", "-f"]);
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn following_without_rights_or_pods_ends_with_a_line_for_each_cause() {
    let world = World::new("follow-rights");
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    let role = json!({"kind": "Role", "metadata": {"namespace": "epguard"}, "rules": [pods]});
    world.server.access().bind(&role).unwrap();
    let output = world.run(&["drops", "-f"]).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines,
        [
            "exit code 2",
            "epguard: no answer from worker-1, worker-2, worker-3: may not run commands in its pod: grant the account the \
             verbs get and create on pods/exec in namespace epguard"
        ]
    );
    let tries = world.server.access().refused().len();
    assert_eq!(tries, 3, "each node is asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_node_does_not_wait_behind_those_that_cannot_be_opened() {
    let world = World::new("opening");
    world.server.execs().answer(|exec| match node_of(exec) {
        "worker-3" => prints_lists(),
        _ => Run::Unanswered,
    });
    let line = first_line(world.command(&["drops", "-f", "--parallel", "1", "--timeout", "600"])).await;
    assert!(line.starts_with("worker-3: dropped reused shop/web"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_that_replaces_an_agent_is_followed() {
    let world = World::empty("successor");
    world.agent("worker-1");
    let store = world.store.clone();
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    world.server.execs().answer(move |exec| {
        if node_of(exec) != "worker-1" {
            return prints_lists();
        }
        count.fetch_add(1, Ordering::Relaxed);
        let mut new = super::world::pod("worker-1");
        new["metadata"]["name"] = "epguard-new".into();
        store.apply(new).unwrap();
        store
            .delete(&ObjectRef::pod("epguard", "epguard-worker-1"), Some(0))
            .unwrap();
        Run::Fails(ApiError::new(404, "NotFound", "container not found"))
    });
    let line = first_line(world.command(&["drops", "-f"])).await;
    assert!(line.starts_with("worker-1: dropped reused shop/web"), "{line}");
    assert_eq!(tries.load(Ordering::Relaxed), 1, "the old pod is asked once");
}

/// The first line that a command prints, within a minute. Then it is ended.
pub async fn first_line(mut command: Command) -> String {
    let line = tokio::task::spawn_blocking(move || {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        line
    });
    tokio::time::timeout(Duration::from_mins(1), line)
        .await
        .unwrap()
        .unwrap()
}

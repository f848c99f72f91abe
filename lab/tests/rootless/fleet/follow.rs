//! `top`, and `drops -f`: streams of all nodes.

use super::denials::dropped;
use super::world::{World, expect, gone, node_of, one_hangs_one_is_gone, status};
use epguard::commands::top::{Answers, Counted, Document};
use epguard::shared::drops::Dropped;
use epguard_common::{Mode, Outcome, Reason};
use epguard_lab::api::{ApiError, ObjectRef, Run};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A process that prints a document, and then again and again one with more packets.
fn prints_documents() -> Run {
    let (first, second) = (document(5), document(9));
    shell(&format!(
        "echo '{first}'; while sleep 0.1; do echo '{second}'; done"
    ))
}

/// A process that prints these lines again and again.
pub fn prints_lines(lines: &[String]) -> Run {
    let prints = lines.iter().map(|line| format!("printf '%s\\n' '{line}'"));
    let prints: Vec<String> = prints.collect();
    shell(&format!(
        "{}; while sleep 0.1; do {}; done",
        prints[0],
        prints.join("; ")
    ))
}

pub fn shell(script: &str) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Run::Process(command)
}

fn document(packets: u64) -> String {
    document_of(&dropped("shop/web", packets))
}

pub fn document_of(dropped: &Dropped) -> String {
    let mut status = status("worker-1");
    status.mode = Some(Mode::Enforce);
    let document = Document {
        agent: Some(Answers {
            problems: vec![],
            status,
            drops: vec![dropped.clone()],
        }),
        counters: Some(vec![Counted {
            reason: Reason::Reused,
            outcome: Outcome::Dropped,
            packets: dropped.packets,
        }]),
        errors: vec![],
    };
    serde_json::to_string(&document).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn new_denials_of_all_nodes_are_followed_and_lost_nodes_are_named() {
    let world = World::new("follow");
    world
        .server
        .execs()
        .answer(|exec| one_hangs_one_is_gone(exec, |_| prints_documents()));
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
async fn top_adds_up_all_nodes() {
    let world = World::new("top");
    world
        .server
        .execs()
        .answer(|exec| one_hangs_one_is_gone(exec, |_| prints_documents()));
    let output = world
        .run(&["top", "--batch", "--count", "2", "--timeout", "1"])
        .await;
    // The rate of the first refresh depends on the moment, later ones are zero.
    let second = output.split("\n\nepguard on").nth(1).unwrap_or(&output);
    expect("top.txt", second);
    world.server.execs().answer(|_| Run::Hangs);
    expect("top-none.txt", &world.run(&["top", "--timeout", "1"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_ends_it() {
    let world = World::new("reader");
    world.server.execs().answer(|_| {
        let [first, second] = [1, 2].map(document);
        shell(&format!(
            "while sleep 0.1; do echo '{first}'; echo '{second}'; done"
        ))
    });
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
        "worker-3" => prints_documents(),
        _ => Run::Unanswered,
    });
    let line = first_line(world.command(&["drops", "-f", "--parallel", "1", "--timeout", "600"])).await;
    assert!(line.starts_with("worker-3: dropped reused shop/web"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_counts_the_packets_of_two_nodes_together() {
    let world = World::new("sums");
    world.server.execs().answer(|exec| match node_of(exec) {
        "worker-1" => prints_lines(&[document(5)]),
        "worker-2" => prints_lines(&[document(7)]),
        _ => gone(),
    });
    expect(
        "top-two.txt",
        &world.run(&["top", "--batch", "--timeout", "5"]).await,
    );
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
            return prints_documents();
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
async fn first_line(mut command: Command) -> String {
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

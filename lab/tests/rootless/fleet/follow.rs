//! `drops -f`: new denials of all nodes.

use super::denials::dropped;
use super::world::{World, expect, node_of, one_hangs_one_is_gone, prints};
use epguard_lab::api::{ApiError, ObjectRef, Run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each answer counts four packets more than the one before.
fn counts() -> impl Fn() -> Run + Clone {
    let packets = Arc::new(AtomicU64::new(4));
    move || {
        prints(
            &[dropped("shop/web", packets.fetch_add(4, Ordering::Relaxed))],
            0,
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_denials_of_all_nodes_are_followed_and_lost_nodes_are_named() {
    let world = World::new();
    let count = counts();
    world.answers(move |exec| one_hangs_one_is_gone(exec, |_| count()));
    let lines = first_lines(world.command("drops -f --timeout 1"), 2, 3).await;
    expect("follow.txt", &lines.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_denied_while_it_was_not_reached_is_shown_once_it_answers() {
    let world = World::empty();
    world.agent("worker-1");
    let asked = AtomicU64::new(0);
    world.answers(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => prints(&[dropped("shop/web", 4)], 0),
        1 => Run::Fails(ApiError::new(500, "InternalError", "no route to host")),
        _ => prints(&[dropped("shop/web", 11)], 0),
    });
    let line = first_line(world.command("drops -f")).await;
    assert!(line.contains("(7 packets from"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_it_even_while_nothing_is_denied() {
    let world = World::new();
    let count = counts();
    let silent = || prints(&[dropped("shop/web", 4)], 0);
    for denies in [true, false] {
        let count = count.clone();
        world.answers(move |_| if denies { count() } else { silent() });
        let left = world.leave("drops -f").await;
        let stderr = String::from_utf8(left.stderr).unwrap();
        assert!(
            // The reader may have left before all nodes have answered.
            stderr.is_empty() || stderr == "watching 3 nodes\n",
            "{denies}: {stderr}"
        );
        assert_eq!(left.status.code(), Some(0), "{denies}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_agent_goes_is_named() {
    let world = World::empty();
    world.agent("worker-1");
    world.agent("worker-2");
    let store = world.store.clone();
    let asked = AtomicU64::new(0);
    let count = counts();
    world.answers(move |exec| {
        if node_of(exec) == "worker-1" && asked.fetch_add(1, Ordering::Relaxed) == 1 {
            store
                .delete(&ObjectRef::pod("epguard", "epguard-worker-2"), Some(0))
                .unwrap();
        }
        count()
    });
    let mut child = world
        .command("drops -f")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut named = lines.filter(|line| line.contains(" has no agent"));
    let line = tokio::task::spawn_blocking(move || named.next());
    let line = tokio::time::timeout(Duration::from_mins(1), line).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let line = line.unwrap().unwrap().unwrap();
    assert_eq!(
        line,
        "epguard: node worker-2 has no agent, so packets pass there (after an earlier one's lease): see the Events of the DaemonSet, its \
         nodeSelector and tolerations"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_of_new_denials_counts_all_of_them_and_keeps_words_of_a_newer_version() {
    let world = World::empty();
    world.agent("worker-1");
    let asked = AtomicU64::new(1);
    world.answers(move |_| {
        let mut entry = serde_json::to_value(dropped(
            "shop/web",
            4 * asked.fetch_add(1, Ordering::Relaxed),
        ))
        .unwrap();
        entry["reason"] = "moved".into();
        prints(&json!([entry]), 0)
    });
    let line = first_line(world.command("drops -f -o json")).await;
    let entry: Value = serde_json::from_str(&line).unwrap();
    let counts = ["packets", "bytes", "openings"].map(|field| entry[field].as_u64().unwrap());
    assert_eq!(
        (counts, &entry["reason"], &entry["node"]),
        ([4, 240, 4], &json!("moved"), &json!("worker-1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn following_without_rights_or_pods_ends_with_a_line_for_each_cause() {
    let world = World::new();
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    world.allow(&json!([pods]));
    let output = world.run("drops -f").await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines,
        [
            "exit code 2",
            "epguard: no answer from worker-1, worker-2, worker-3: may not run commands in its pod (pods/exec is \
             forbidden: User \"lab\" cannot get resource \"pods/exec\" in API group \"\" in the namespace \"epguard\"): grant the \
             account the verbs get and create on pods/exec in namespace epguard"
        ]
    );
    let refused = world.server.api.access.refused();
    let tries = refused.iter().filter(|one| one.contains("exec")).count();
    assert_eq!(tries, 3, "each node is asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_that_replaces_an_agent_is_followed() {
    let world = World::empty();
    world.agent("worker-1");
    let store = world.store.clone();
    let count = counts();
    world.answers(move |exec| {
        if node_of(exec) == "worker-1" {
            let mut new = super::world::pod("worker-1");
            new["metadata"]["name"] = "epguard-new".into();
            store.apply(new).unwrap();
            store
                .delete(&ObjectRef::pod("epguard", "epguard-worker-1"), Some(0))
                .unwrap();
        }
        count()
    });
    let line = first_line(world.command("drops -f")).await;
    assert!(
        line.starts_with("worker-1: dropped reused shop/web"),
        "{line}"
    );
}

/// The first line that a command prints, within a minute. Then it is ended.
pub async fn first_line(command: Command) -> String {
    first_lines(command, 1, 0).await.remove(0)
}

/// So many first lines of its standard output, and of its standard error.
async fn first_lines(mut command: Command, out: usize, err: usize) -> Vec<String> {
    let stderr = if err > 0 {
        Stdio::piped()
    } else {
        Stdio::inherit()
    };
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .take(out);
    let stderr = child
        .stderr
        .take()
        .into_iter()
        .flat_map(move |pipe| BufReader::new(pipe).lines().take(err));
    let lines =
        tokio::task::spawn_blocking(|| stdout.chain(stderr).collect::<Result<_, _>>().unwrap());
    let lines = tokio::time::timeout(Duration::from_mins(1), lines).await;
    child.kill().unwrap();
    child.wait().unwrap();
    lines.unwrap().unwrap()
}

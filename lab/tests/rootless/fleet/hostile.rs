//! A node, or a kubelet, that writes to the terminal of its operator, and readers that leave.

use super::denials::{dropped, explanation, report, usual};
use super::follow::first_line;
use super::world::{World, node_of, prints, says, status};
use epguard_client::answers::status::Problem;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Clears the screen, begins a line, colours it, and writes from right to left.
const EVIL: &str = "x\u{1b}[2J\r\nFORGED all is well\u{9b}32m\u{202e}y";

/// The document with the hostile text in place of each of these.
fn hostile(document: &Value, words: &[&str]) -> Value {
    let mut text = document.to_string();
    for word in words {
        let evil = serde_json::to_string(EVIL).unwrap();
        text = text.replace(&format!("\"{word}\""), &evil);
    }
    serde_json::from_str(&text).unwrap()
}

/// The first character that a terminal would obey.
fn raw(output: &str) -> Option<char> {
    output
        .chars()
        .find(|one| (one.is_control() && *one != '\n') || *one == '\u{202e}')
}

fn world() -> World {
    let world = World::new();
    let mut pod = super::world::pod("worker-2");
    pod["spec"]["containers"][0]["args"][0] = EVIL.into();
    world.store.apply(pod).unwrap();
    let mut waiting = super::world::pod("worker-3");
    waiting["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": EVIL}});
    world.store.apply(waiting).unwrap();
    let asked = AtomicU64::new(0);
    world.answers(move |exec| match (node_of(exec), &*exec.command[1]) {
        ("worker-2", "status") => {
            let mut status = status("worker-1");
            status.version = EVIL.into();
            status.translators.cilium = vec![EVIL.into()];
            let problem = Problem {
                what: EVIL.into(),
                remedy: EVIL.into(),
            };
            prints(&json!({"problems": [problem], "status": status}), 1)
        }
        ("worker-2", "drops") => {
            let mut dropped = dropped("shop/web", 3);
            dropped.kind.hit = EVIL.into();
            dropped.packets += asked.fetch_add(1, Ordering::Relaxed);
            prints(&json!([dropped]), 0)
        }
        ("worker-2", "why") => prints(
            &hostile(&explanation("deny"), &["shop/a", "of it", "worker-1"]),
            0,
        ),
        ("worker-2", "audit") => prints(&report(EVIL, &json!([])), 1),
        ("worker-2", _) => says("", &EVIL.replace('\n', "\u{85}"), 1),
        _ => usual(exec),
    });
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn no_node_writes_to_the_terminal_or_forges_a_line() {
    let world = world();
    let verbs = [
        "status",
        "status -o wide",
        "status --node worker-2",
        "drops",
        "why 10.244.1.10",
        "audit",
        "mode",
    ];
    let outputs = world.expect_each("hostile.txt", &verbs).await;
    let followed = first_line(world.command("drops -f")).await;
    for output in outputs.iter().chain([&followed]) {
        assert_eq!(raw(output), None, "{output:?}");
        assert!(
            !output.lines().any(|line| line.starts_with("FORGED")),
            "{output}"
        );
    }
    assert!(followed.contains("FORGED"), "{followed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_has_the_exact_text_of_a_node_and_no_raw_control_characters() {
    let world = world();
    let output = world.run("drops -o json").await;
    let json = output.split_once('\n').unwrap().1;
    let document: Value = serde_json::from_str(json).unwrap();
    assert_eq!(document["nodes"][1]["answer"][0]["hit"], EVIL);
    let yaml = world.run("drops -o yaml").await;
    let followed = first_line(world.command("drops -f -o json")).await;
    for output in [output, yaml, followed] {
        assert_eq!(raw(&output), None, "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_left_ends_every_verb_quietly() {
    let world = world();
    for verb in ["status", "drops", "why 10.244.1.10", "audit", "mode"] {
        let output = world.leave(verb).await;
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !stderr.contains("panicked") && !stderr.contains("Broken pipe"),
            "{verb}: {stderr}"
        );
        assert_ne!(output.status.code(), Some(101), "{verb}");
    }
}

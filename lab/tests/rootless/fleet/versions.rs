//! Agents of other versions.

use super::denials::{dropped, explanation, finding, report, usual};
use super::world::{World, expect, node_of, prints, says, status};
use serde_json::{Value, json};

/// What the parser of an older version prints.
const USAGE: &str =
    "error: unrecognized subcommand 'x'\n\nUsage: epguard <COMMAND>\n\nFor more information, try '--help'.\n";

/// A status in a form of the future.
fn newer() -> Value {
    let mut status = serde_json::to_value(status("worker-2")).unwrap();
    status["form"] = 5.into();
    status["version"] = "0.9.0".into();
    status
}

/// The first agent is of this version, the second newer, the third older.
fn world(name: &str) -> World {
    let world = World::new(name);
    world.server.api.execs.answer(|exec| {
        let verb = &*exec.command[1];
        let mut denial = dropped("shop/web", 3);
        match (node_of(exec), verb) {
            ("worker-3", "--version") => says("epguard 0.0.9\n", "", 0),
            ("worker-3", _) => says("", USAGE, 2),
            ("worker-2", "status") => prints(&json!({"problems": [], "status": newer()}), 0),
            ("worker-2", "drops") => {
                let mut moved = serde_json::to_value(dropped("shop/web", 20)).unwrap();
                moved["reason"] = "moved".into();
                denial.packets = 4;
                prints(&json!([moved, denial]), 0)
            }
            ("worker-2", "why") => {
                let mut moved = explanation("deny");
                moved["verdicts"][0]["reason"] = "moved".into();
                prints(&moved, 0)
            }
            ("worker-2", "audit") => prints(&report("worker-2", &json!([finding("moved", "moved")])), 1),
            (_, "drops") => prints(&[denial], 0),
            (_, "status" | "why" | "audit") => usual(exec),
            (_, verb) => says("", &format!("unexpected {verb}"), 2),
        }
    });
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_other_versions_are_named_once_and_lose_no_line_that_is_known() {
    let world = world("versions");
    let mut outputs = Vec::new();
    for verb in ["status", "drops", "drops --reason reused", "why 10.244.1.10", "audit", "mode"] {
        outputs.push(format!("{verb}: {}", world.run(verb).await));
    }
    expect("versions.txt", &outputs.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_keeps_the_words_of_a_newer_version() {
    let world = world("newer-words");
    let output = world.run("drops -o json --node worker-2").await;
    let document: Value = serde_json::from_str(output.split_once('\n').unwrap().1).unwrap();
    assert_eq!(document["nodes"][0]["answer"][0]["reason"], "moved");
}

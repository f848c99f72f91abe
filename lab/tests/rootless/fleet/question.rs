//! The question before a change, at a terminal.

use super::world::{World, condition, node_of, status};
use epguard_lab::api::{Kind, ObjectRef};
use nix::pty::openpty;
use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::process::Stdio;

/// Types `before`, runs the plugin with these words, and types `answer` once it asks. Returns its
/// exit code.
async fn answered(world: &World, words: &str, before: &str, answer: &'static str) -> Option<i32> {
    let terminal = openpty(None, None).unwrap();
    let mut keys = File::from(terminal.master);
    keys.write_all(before.as_bytes()).unwrap();
    let mut command = world.command(words);
    command
        .stdin(terminal.slave)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let asked = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        // The parent's end of the terminal goes with it.
        drop(command);
        let mut shown = Vec::new();
        for octet in BufReader::new(child.stderr.take().unwrap()).bytes() {
            shown.push(octet.unwrap());
            if shown.ends_with(b"[y/N] ") {
                keys.write_all(answer.as_bytes()).unwrap();
            }
        }
        child.wait().unwrap().code()
    });
    asked.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_typed_after_the_question_is_its_answer() {
    let world = World::new();
    world.answers(|exec| condition(status(node_of(exec))));
    let map = ObjectRef::new(Kind::ConfigMap, "epguard", "epguard");
    for words in ["mode observe", "action reject"] {
        let refused = answered(&world, words, "y\ny\n", "n\n").await;
        assert_eq!((refused, world.store.get(&map)), (Some(2), None), "{words}");
    }
    let done = answered(&world, "mode observe", "n\nno", "yes\n").await;
    assert_eq!(done, Some(0));
    let data = world.store.get(&map).unwrap()["data"].clone();
    assert_eq!(data, serde_json::json!({"mode": "observe"}));
}

//! `kubectl epguard status`, and agents of other versions.

use epguard::shared::status::ModeSource;
use epguard_common::{Mode, Reason};
use serde_json::{Value, json};

use super::denials::{dropped, explanation, finding, report, usual};
use super::world::{
    World, condition, expect, node_of, one_hangs_one_is_gone, prints, says, status,
};

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_well_is_a_line_for_each_node() {
    let world = World::new();
    expect("status-well.txt", &world.run("status").await);
    expect("status-wide.txt", &world.run("status -o wide").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_share_a_line_below_their_problems() {
    let world = World::empty();
    for number in 1..=40 {
        world.node(&format!("worker-{number}"));
        world.agent(&format!("worker-{number}"));
    }
    world.answers(|exec| {
        let node = node_of(exec);
        let mut status = status(node);
        if node.ends_with('7') {
            status.synced = false;
            status.view_age_ms = None;
        }
        condition(status)
    });
    expect("status-many.txt", &world.run("status").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_and_one_that_is_gone_are_named_and_the_others_are_shown() {
    let world = World::new();
    world.answers(|exec| one_hangs_one_is_gone(exec, |_| condition(status("worker-1"))));
    expect("status-partial.txt", &world.run("status --timeout 1").await);
    expect(
        "status-partial.json",
        &world.run("status --timeout 1 -o json").await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_and_problems_name_their_nodes() {
    let world = World::new();
    world.node("worker-4");
    let mut pod = super::world::pod("worker-3");
    pod["spec"]["containers"][0]["args"]
        .as_array_mut()
        .unwrap()
        .push(json!("--hooks=clsact"));
    world.store.apply(pod).unwrap();
    world.answers(|exec| {
        let node = node_of(exec);
        let mut status = status(node);
        match node {
            "worker-1" => status.mode_source = ModeSource::Canary,
            "worker-2" => {
                status.mode = Some(Mode::Enforce);
                status.synced = false;
            }
            _ => {
                status.version = "0.2.0".into();
                status.translators.cilium = vec!["cilium_ct4_global".into()];
                status.demoted = vec![Reason::Reused];
                status.wrong_denies = [(Reason::Reused, 1)].into();
            }
        }
        condition(status)
    });
    expect("status-differ.txt", &world.run("status").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_named_node_is_shown_as_by_its_own_command() {
    let world = World::new();
    expect("status-one.txt", &world.run("status --node worker-2").await);
    let chosen = world.run("status -l name=worker-3").await;
    expect("status-selected.txt", &chosen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_node_that_does_not_exist_is_told_from_one_without_an_agent() {
    let world = World::new();
    world.node("worker-4");
    let attempts = [
        "status --node worker-1,worker-9",
        "status --node worker-1,worker-4",
        "status --node worker-4",
        "drops --node worker-4,worker-9,worker-8",
        "audit --node worker-4",
        "mode enforce --node worker-4 -y",
        "check --node worker-4",
    ];
    world.expect_each("status-unknown.txt", &attempts).await;
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    world.allow(&json!([
        rule("pods", &["list"]),
        rule("pods/exec", &["get", "create"])
    ]));
    let unsure = world.run("status --node worker-1,worker-9").await;
    let unknown =
        "worker-9: no agent's pod is there, and whether the cluster has such a node is not known: ";
    assert!(
        unsure.starts_with("exit code 2\n") && unsure.contains(&format!("\n{unknown}")),
        "{unsure}"
    );
    let unsure = world.run("mode off --node worker-9 -y").await;
    let refused = format!("exit code 2\nepguard: nothing is changed: {unknown}");
    assert!(unsure.starts_with(&refused), "{unsure}");
}

/// What the parser of an older version prints.
const USAGE: &str = "error: unrecognized subcommand 'x'\n\nUsage: epguard <COMMAND>\n\nFor more information, try '--help'.\n";

/// A status in a form of the future.
fn newer() -> Value {
    let mut status = serde_json::to_value(status("worker-2")).unwrap();
    status["form"] = 5.into();
    status["version"] = "0.9.0".into();
    status
}

/// The first agent is of this version, the second newer, the third older.
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_other_versions_are_named_once_and_lose_no_line_that_is_known() {
    let world = World::new();
    world.answers(|exec| {
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
            ("worker-2", "audit") => {
                prints(&report("worker-2", &json!([finding("moved", "moved")])), 1)
            }
            (_, "drops") => prints(&[denial], 0),
            (_, "status" | "why" | "audit") => usual(exec),
            (_, verb) => says("", &format!("unexpected {verb}"), 2),
        }
    });
    let verbs = [
        "status",
        "drops",
        "drops --reason reused",
        "why 10.244.1.10",
        "audit",
        "mode",
    ];
    world.expect_each("versions.txt", &verbs).await;
    let document = world.run("drops -o json --node worker-2").await;
    assert!(document.contains("\"moved\""), "{document}");
}

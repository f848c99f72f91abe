//! `kubectl epguard status`.

use super::world::{World, condition, expect, node_of, one_hangs_one_is_gone, status};
use epguard::shared::status::ModeSource;
use epguard_common::{Mode, Reason};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_well_is_a_line_for_each_node() {
    let world = World::new("well");
    world.server.api.execs.answer(|exec| condition(status(node_of(exec))));
    expect("status-well.txt", &world.run("status").await);
    expect("status-wide.txt", &world.run("status -o wide").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_and_one_that_is_gone_are_named_and_the_others_are_shown() {
    let world = World::new("partial");
    world.server.api.execs.answer(|exec| one_hangs_one_is_gone(exec, |_| condition(status("worker-1"))));
    expect("status-partial.txt", &world.run("status --timeout 1").await);
    expect("status-partial.json", &world.run("status --timeout 1 -o json").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_and_problems_name_their_nodes() {
    let world = World::new("differ");
    world.node("worker-4");
    let mut pod = super::world::pod("worker-3");
    pod["spec"]["containers"][0]["args"].as_array_mut().unwrap().push(json!("--hooks=clsact"));
    world.store.apply(pod).unwrap();
    world.server.api.execs.answer(|exec| {
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
    let world = World::new("one");
    world.server.api.execs.answer(|exec| condition(status(node_of(exec))));
    expect("status-one.txt", &world.run("status --node worker-2").await);
    let chosen = world.run("status -l name=worker-3").await;
    expect("status-selected.txt", &chosen);
    let unknown = world.run("status --node worker-1,worker-9").await;
    expect("status-unknown.txt", &unknown);
}

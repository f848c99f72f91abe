//! What an operator asks a node: `epguard status` and `epguard drops`, as typed.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod agent;

use agent::World;
use agent::stale::{connect_to_the_service, deny};
use serde_json::Value;
use std::process::Output;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_status_says_what_is_wrong_first_and_by_its_exit_code() {
    let mut world = World::new("status");
    let none = epguard(&world, &["status"]);
    assert_eq!(none.status.code(), Some(2));
    let error = String::from_utf8(none.stderr).unwrap();
    assert!(
        error.starts_with("epguard: no agent answers at ") && error.lines().count() == 1,
        "{error}"
    );

    let kubeconfig = world.server.kubeconfig();
    world.start(&kubeconfig, &["--max-view-age", "10", "--lease", "10"]);
    world.until("synced", |status| status.synced);
    deny(&mut world);
    let well = epguard(&world, &["status"]);
    let text = text(&well);
    assert_eq!(well.status.code(), Some(0), "{text}");
    println!("{text}");
    assert!(
        text.ends_with('\n') && text.contains(" on n: enforce (by flags), all is well\n"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "a pipe gets no colours: {text}");

    let archive = world.dir.join("sysdump.tar");
    let (file, pins) = (archive.to_str().unwrap(), world.dir.join("bpf/epguard"));
    let dumped = epguard(
        &world,
        &["sysdump", "-f", file, "--pin-dir", pins.to_str().unwrap()],
    );
    assert!(dumped.status.success(), "{dumped:?}");
    let list = std::process::Command::new("tar")
        .args(["tf", file])
        .output()
        .unwrap();
    for part in ["status", "drops", "maps", "audit"] {
        let part = format!("epguard-sysdump/{part}.json\n");
        assert!(self::text(&list).contains(&part), "{part} in {list:?}");
    }

    world.server.faults(|faults| faults.outage = true);
    world.until("past the lease", |status| status.lease_ms < 0);
    let degraded = epguard(&world, &["status", "-o", "json"]);
    assert_eq!(degraded.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&degraded.stdout).unwrap();
    let problems = document["problems"].as_array().unwrap();
    let first = problems[0]["what"].as_str().unwrap();
    assert!(first.starts_with("no watch is up: cannot watch "), "{first}");
    let lease = |problem: &Value| {
        problem["what"]
            .as_str()
            .unwrap()
            .starts_with("the lease has ended")
    };
    assert!(problems.iter().any(lease), "{problems:?}");
    println!("{}", self::text(&epguard(&world, &["status"])));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_denied_flow_is_one_row_with_the_pod_that_was_meant() {
    let mut world = World::new("drops");
    let kubeconfig = world.server.kubeconfig();
    world.start(&kubeconfig, &[]);
    world.until("synced", |status| status.synced);
    deny(&mut world);
    let nothing = epguard(&world, &["drops"]);
    assert_eq!(
        text(&nothing),
        "nothing was denied, and nothing would have been\n"
    );

    connect_to_the_service(&world);
    let rows = |arguments: &[&str]| {
        let output = epguard(&world, &[&["drops", "-o", "json"], arguments].concat());
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        rows.as_array().unwrap().clone()
    };
    let all = rows(&[]);
    println!("{}", text(&epguard(&world, &["drops"])));
    let [row] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        [
            &row["service"],
            &row["meant"],
            &row["hit"],
            &row["reason"],
            &row["outcome"]
        ],
        ["shop/web", "shop/a", "nobody", "dead-backend", "dropped"]
    );
    assert!(row["reported"].as_u64().unwrap() >= 1, "{row}");
    assert_eq!(rows(&["-n", "shop", "--reason", "dead-backend"]).len(), 1);
    assert!(rows(&["-n", "other"]).is_empty());
}

fn epguard(world: &World, arguments: &[&str]) -> Output {
    let mut command = world.epguard();
    command.args(arguments).arg("--run-dir").arg(&world.dir);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

//! `epguard status`, `drops` and `why`, as an operator types them.

use std::process::Output;

use epguard_lab::api::ObjectRef;
use serde_json::Value;

use super::world::World;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_status_shows_problems_first_and_by_its_exit_code() {
    let mut world = World::new("status");
    let none = world.run(&["status"]);
    assert_eq!(none.status.code(), Some(2));
    let error = String::from_utf8(none.stderr).unwrap();
    assert!(
        error.starts_with("epguard: no agent answers at ") && error.lines().count() == 1,
        "{error}"
    );

    world.start(&["--max-view-age", "10", "--lease", "10"]);
    world.until("synced", |status| status.synced);
    world.deny();
    let well = world.run(&["status"]);
    let text = text(&well);
    assert_eq!(well.status.code(), Some(0), "{text}");
    println!("{text}");
    assert!(
        text.ends_with('\n') && text.contains(" on n: enforce (by flags), all is well\n"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "a pipe gets no colours: {text}");

    let archive = world.dir.join("sysdump.tar");
    let file = archive.to_str().unwrap();
    let pins = world.dir.join("bpf/epguard");
    let dumped = world.run(&["sysdump", "-f", file, "--pin-dir", pins.to_str().unwrap()]);
    assert!(dumped.status.success(), "{dumped:?}");
    let list = std::process::Command::new("tar")
        .args(["tf", file])
        .output()
        .unwrap();
    let json = ["status", "drops", "maps", "audit", "why"].map(|part| format!("{part}.json"));
    let texts = [
        "log",
        "netlink-links",
        "netlink-addresses",
        "netlink-routes",
        "netlink-routing-rules",
        "netlink-neighbours",
        "bpf-programs",
        "bpf-maps",
    ];
    for part in json
        .into_iter()
        .chain(texts.map(|part| format!("{part}.txt")))
    {
        let part = format!("epguard-sysdump/{part}\n");
        assert!(self::text(&list).contains(&part), "{part} in {list:?}");
    }
    let content = |part: &str| {
        let mut tar = std::process::Command::new("tar");
        let output = tar
            .args(["xOf", file, &format!("epguard-sysdump/{part}")])
            .output();
        self::text(&output.unwrap())
    };
    for (part, words) in [
        ("log.txt", "synced"),
        ("why.json", "10.244.1.10"),
        ("netlink-routes.txt", "10.244.1.0"),
        ("bpf-maps.txt", "name DENIED"),
        ("missing.txt", ""),
    ] {
        assert!(
            content(part).contains(words),
            "{words} in {part}: {}",
            content(part)
        );
    }
    // This sysctl belongs to the first network namespace only.
    let missing = content("missing.txt");
    assert!(
        missing
            .lines()
            .all(|line| line.starts_with("proc-sys-net-core-bpf_jit_enable")),
        "{missing}"
    );

    world.server.faults(|faults| faults.outage = true);
    world.until("past the lease", |status| status.lease_ms < 0);
    let degraded = world.run(&["status", "-o", "json"]);
    assert_eq!(degraded.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&degraded.stdout).unwrap();
    let problems = document["problems"].as_array().unwrap();
    let first = problems[0]["what"].as_str().unwrap();
    assert!(
        first.starts_with("no watch is up: cannot watch "),
        "{first}"
    );
    assert!(
        problems.iter().any(|problem| {
            problem["what"]
                .as_str()
                .unwrap()
                .starts_with("the lease has ended")
        }),
        "{problems:?}"
    );
    println!("{}", self::text(&world.run(&["status"])));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_pod_that_was_gone_before_a_restart_keeps_its_name() {
    let mut world = World::synced("names", &[]);
    world.deny();
    let nothing = text(&world.run(&["drops"]));
    assert_eq!(nothing, "nothing was denied, and nothing would have been\n");
    world.connect_to_the_service();
    let names = world.dir.join("names.json");
    world.until("names are kept", |_| {
        std::fs::read_to_string(&names).is_ok_and(|names| names.contains(r#"["shop","a"]"#))
    });
    world.stop();
    world
        .store
        .delete(&ObjectRef::pod("shop", "a"), Some(0))
        .unwrap();
    world.start(&[]);
    // Names appear with the first tick after the lists.
    world.until("denying again, with the name", |status| {
        let is_known = status.pods.values().any(|pod| pod == "shop/a");
        status.lease_ms > 0 && status.breaker.is_empty() && status.denies() && is_known
    });
    // What the earlier agent's programs counted is of the same Service and pods.
    let earlier = text(&world.run(&["drops"]));
    assert_eq!(earlier.lines().count(), 2, "{earlier}");
    assert!(earlier.contains("shop/web"), "{earlier}");
    world.connect_to_the_service();
    let drops = text(&world.run(&["drops"]));
    assert_eq!(drops.lines().count(), 2, "{drops}");
    assert!(drops.contains("shop/a"), "{drops}");
    let why = text(&world.run(&["why", "10.244.1.10"]));
    assert!(
        why.contains("shop/a is meant") && why.contains("(dead-backend)"),
        "{why}"
    );
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

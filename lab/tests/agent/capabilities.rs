//! The real agent with the capabilities of `deploy/epguard.yaml`, which are those of all agents in
//! tests, and with fewer.

use super::world::{World, manifest};
use epguard::kernel::maps;
use epguard_common::{Outcome, Reason};
use epguard_lab::agent::CAPABILITIES;
use serde_json::Value;
use std::collections::BTreeSet;

const NAMES: [&str; 3] = ["NET_ADMIN", "PERFMON", "BPF"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_named_capabilities_are_enough_to_deny_a_packet() {
    let context =
        &manifest("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    let added: BTreeSet<&str> = context["capabilities"]["add"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(added, BTreeSet::from(NAMES));
    let mask: u64 = CAPABILITIES.iter().map(|number| 1 << number).sum();
    for hooks in ["tcx", "clsact"] {
        let mut world = World::new(&format!("caps-{hooks}"));
        world.start(&["--hooks", hooks]);
        world.deny();
        let process = std::fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
        assert!(
            process.contains(&format!("CapEff:\t{mask:016x}\n")),
            "{process}"
        );
        world.connect_to_the_service();
        let counters = maps::counters(&world.dir.join("bpf/epguard")).unwrap();
        assert_eq!(
            counters[&(Reason::DeadBackend, Outcome::Dropped)].packets,
            1,
            "{hooks}"
        );
        let status = world.status();
        assert!(
            status.interfaces.iter().all(|interface| interface.attached),
            "{status:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn without_any_one_capability_the_agent_ends_and_names_the_failed_step() {
    for (missing, number) in NAMES.into_iter().zip(CAPABILITIES) {
        let others: Vec<u32> = CAPABILITIES
            .into_iter()
            .filter(|other| *other != number)
            .collect();
        let mut world = World::new("caps-less");
        world.capabilities = others;
        world.start(&["--hooks", "tcx"]);
        let outcome = world.outcome();
        assert!(
            outcome.contains("needs Linux 5.14, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
            "without {missing}: {outcome}"
        );
        println!(
            "without {missing}: {}",
            outcome.lines().last().unwrap_or_default()
        );
    }
}

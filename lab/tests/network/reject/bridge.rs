//! A bridge that does not know where the holder of an IP is: it floods packets to all ports, and
//! learns from what comes in there.

use std::collections::BTreeSet;
use std::net::TcpStream;

use epguard_common::ANSWER_MAC;
use epguard_lab::programs::Programs;

use super::cluster::{all_refused, count_invalid, reject};
use super::figures::{Denied, Direct};
use super::world::{Plan, World, on_both_families};
use crate::intents::clients::BRIDGE;

/// Pods whose ports get the copies of a flooded packet before the holder's: a bridge's newest port
/// comes first.
const OTHERS: u8 = 3;

/// What the bridge has learnt: link-layer addresses, each with its port.
fn learnt(world: &World) -> BTreeSet<(String, String)> {
    let entries = json(world, "node-a", "bridge", "-j fdb show br cni0 dynamic");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (text(&entry["mac"]), text(&entry["ifname"])))
        .collect()
}

/// The link-layer address of a pod, with its port.
fn place(world: &World, pod: &str) -> (String, String) {
    let links = json(world, pod, "ip", "-j link show dev eth0");
    (
        links[0]["address"].as_str().unwrap().to_owned(),
        world.link(pod).to_owned(),
    )
}

fn json(world: &World, host: &str, program: &str, arguments: &str) -> serde_json::Value {
    let shown = world
        .netns(host)
        .command(program)
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    serde_json::from_slice(&shown.stdout).unwrap()
}

/// Adds pods, and hooks all interfaces.
fn add_others(world: &mut World) {
    for number in 0..OTHERS {
        let ip = world
            .lab
            .node("node-a")
            .unwrap()
            .pod_ip(!world.ipv6, 10 + number);
        world
            .lab
            .add_pod("node-a", &format!("shop/other-{number}"), &[ip])
            .unwrap();
    }
    let mut hooks = Programs::load(world.netns("node-a"), Ok).unwrap();
    hooks.hook().unwrap();
    hooks.writer.install(&world.tables).unwrap();
    world.hooks = hooks;
}

/// Segments that a host has sent again.
fn sent_again(world: &World, host: &str) -> u64 {
    let snmp = world
        .netns(host)
        .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap())
        .unwrap();
    let tcp: Vec<&str> = snmp
        .lines()
        .filter(|line| line.starts_with("Tcp:"))
        .collect();
    let place = tcp[0]
        .split(' ')
        .position(|name| name == "RetransSegs")
        .unwrap();
    tcp[1].split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn after_a_refused_call_that_was_flooded_the_bridge_has_learnt_nothing_wrong_and_no_direct_call_is_lost()
 {
    on_both_families(
        Plan {
            options: BRIDGE,
            ..Plan::default()
        },
        |mut world| {
            add_others(&mut world);
            count_invalid(&world);
            reject(&mut world);
            let pods = ["shop/client", "bank/x"].map(|pod| place(&world, pod));
            for caller in ["shop/client", "node-a"] {
                // The node knows the holder, the bridge does not.
                world.shell("node-a", "ip link set dev cni0 type bridge fdb_flush");
                all_refused(&world, &[caller], |_| world.address(Denied), 1);
                let learnt = learnt(&world);
                let own = ANSWER_MAC.map(|octet| format!("{octet:02x}")).join(":");
                for (address, port) in &learnt {
                    let right = pods.iter().find(|(of, _)| of == address);
                    assert!(
                        right.is_none_or(|(_, of)| of == port),
                        "{caller}: {learnt:?}"
                    );
                    assert_ne!(*address, own, "{caller}: {learnt:?}");
                }
                let before = sent_again(&world, caller);
                let direct = world.address(Direct);
                world
                    .netns(caller)
                    .run(|| TcpStream::connect(direct))
                    .unwrap()
                    .unwrap();
                assert_eq!(
                    sent_again(&world, caller),
                    before,
                    "{caller}: the SYN was lost"
                );
            }
        },
    );
}

//! The time from the event of an interface to its hooks.

use std::time::Instant;

use super::announced::Announcements;
use super::node::{hooked_after, is_hooked, node, report, stage};
use epguard_lab::net::Cni;

const TIMES: usize = 20;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_veth_that_is_deleted_and_made_again_under_its_name_is_hooked_again() {
    let stage = stage(Cni::Ptp);
    let node = node(&stage);
    let make = || node.ip(&["link add again type veth peer name peer"]).unwrap();
    make();
    hooked_after(&node, "again", Instant::now());
    let figures = (0..TIMES).map(|_| {
        node.ip(&["link delete again"]).unwrap();
        let announced = Announcements::of(&node);
        std::thread::scope(|scope| {
            scope.spawn(make);
            hooked_after(&node, "again", announced.wait("again", false))
        })
    });
    report("veth made again", figures.collect());
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn an_interface_that_is_made_again_under_its_number_in_one_go_is_hooked_again() {
    let stage = stage(Cni::Ptp);
    let node = node(&stage);
    let make = "link add same index 7001 type veth peer name peer index 7002";
    node.ip(&[make]).unwrap();
    hooked_after(&node, "same", Instant::now());
    let figures = (0..TIMES).map(|_| {
        let announced = Announcements::of(&node);
        std::thread::scope(|scope| {
            scope.spawn(|| node.ip(&["link delete same", make]).unwrap());
            hooked_after(&node, "same", announced.wait("same", true))
        })
    });
    report("veth made again under its number", figures.collect());
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_port_that_moves_between_bridges_and_a_renamed_veth_are_never_without_hooks() {
    let stage = stage(Cni::Bridge);
    let node = node(&stage);
    let lines = [
        "link add br1 type bridge",
        "link add br2 type bridge",
        "link add port type veth peer name peer",
        "link set port master br1",
    ];
    node.ip(&lines).unwrap();
    hooked_after(&node, "port", Instant::now());
    for (turn, bridge) in (0..TIMES).zip(["br2", "br1"].into_iter().cycle()) {
        node.ip(&[format!("link set port master {bridge}")]).unwrap();
        assert!(is_hooked(&node, "port"), "turn {turn}");
    }
    let mut name = "port".to_owned();
    for turn in 0..TIMES {
        let new = format!("port{turn}");
        node.ip(&[format!("link set {name} name {new}")]).unwrap();
        assert!(is_hooked(&node, &new), "turn {turn}");
        name = new;
    }
    // After all these events the agent must leave the hooks where they are.
    node.ip(&["link add last type veth peer name end"]).unwrap();
    hooked_after(&node, "last", Instant::now());
    assert!(is_hooked(&node, &name));
    println!("{TIMES} moves and {TIMES} new names: hooked after 0 ms");
}

//! Interfaces that are made again, moved and renamed.

use super::node::{await_hooks, is_hooked, node, stage};
use epguard_lab::net::Cni;

const TIMES: usize = 20;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_veth_that_is_deleted_and_made_again_under_its_name_or_its_number_is_hooked_again() {
    let stage = stage(Cni::Ptp);
    let node = node(&stage);
    for (number, peers, in_one_go) in [("", "", false), ("index 7001", "index 7002", true)] {
        let make = format!("link add again {number} type veth peer name peer {peers}");
        node.ip(&[&make]).unwrap();
        await_hooks(&node, "again");
        for _ in 0..TIMES {
            let again = ["link delete again", &make];
            again.chunks(if in_one_go { 2 } else { 1 }).for_each(|batch| node.ip(batch).unwrap());
            await_hooks(&node, "again");
        }
        node.ip(&["link delete again"]).unwrap();
    }
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
    await_hooks(&node, "port");
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
    await_hooks(&node, "last");
    assert!(is_hooked(&node, &name));
}

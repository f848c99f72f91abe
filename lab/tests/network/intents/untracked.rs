//! Packets without a conntrack entry: each passes, and is counted as that.

use super::figures::{Aim, Denied, Direct, Figures, in_both_modes, in_mode, send_all};
use super::world::{PORT, Plan, World, on_both_families};
use epguard_common::Mode;

const COUNT: usize = 200;

fn send(world: &World, aim: Aim) -> [u64; 3] {
    let socket = world.socket("shop/client");
    send_all(world, &socket, &[aim; COUNT], 64)
}

/// Asserts that so many packets without an entry passed. In IPv6 neighbour solicitations are among them.
#[track_caller]
fn passed_without_entry(figures: &Figures, packets: usize, ipv6: bool) {
    let packets = packets as u64;
    let exact = figures.no_connection == packets;
    assert!(exact || ipv6 && figures.no_connection > packets, "{figures}");
}

/// Rules of nftables on node-a. `IP` is `ip` or `ip6`, `X` pod X, `VIP` the address of Service S, `GATEWAY` a host outside.
fn rules(world: &World, text: &str) {
    let (ip, gateway) = if world.ipv6 { ("ip6", "fd00:250::1") } else { ("ip", "192.168.250.1") };
    let text = text
        .replace("VIP", &world.address(Denied).ip().to_string())
        .replace("IP", ip)
        .replace('X', &world.address(Direct).ip().to_string())
        .replace("GATEWAY", gateway);
    world.shell("node-a", &format!("nft '{text}'"));
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_a_rule_exempts_from_tracking_pass_and_are_counted() {
    on_both_families(Plan::default(), |mut world| {
        rules(
            &world,
            "add table IP raw; add chain IP raw pre { type filter hook prerouting priority raw; }; \
             add rule IP raw pre IP daddr X notrack",
        );
        for figures in in_both_modes(&mut world, "notrack", |world| send(world, Direct)) {
            assert_eq!(figures.arrived, figures.aimed, "{figures}");
            assert_eq!(figures.no_intent, 0, "{figures}");
            passed_without_entry(&figures, COUNT, world.ipv6);
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_are_translated_without_conntrack_pass_and_are_counted() {
    on_both_families(Plan::default(), |mut world| {
        rules(
            &world,
            &format!(
                "add table IP raw; add chain IP raw pre {{ type filter hook prerouting priority raw; }}; \
                 add rule IP raw pre IP daddr VIP udp dport 80 notrack IP daddr set X udp dport set {PORT}"
            ),
        );
        for figures in in_both_modes(&mut world, "stateless NAT", |world| send(world, Denied)) {
            assert_eq!(figures.arrived, figures.aimed, "{figures}");
            assert_eq!(figures.denied, 0, "{figures}");
            passed_without_entry(&figures, COUNT, world.ipv6);
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn copies_that_tc_mirrors_pass_and_are_counted_once_beside_their_packets() {
    on_both_families(Plan::default(), |mut world| {
        let link = world.link("bank/x").to_owned();
        world.shell(
            "node-a",
            &format!(
                "tc qdisc add dev {link} clsact || true # before TCX it is there
                 tc filter add dev {link} egress protocol all u32 match u32 0 0 action mirred egress mirror dev eth0"
            ),
        );
        // In enforce the packet is stopped before it is copied.
        let figures = in_mode(&mut world, "mirred", Mode::Observe, |world| send(world, Denied));
        assert_eq!(figures.denied, COUNT as u64, "{figures}");
        passed_without_entry(&figures, COUNT, world.ipv6);
    });
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn copies_that_nftables_makes_pass_and_are_counted_once_beside_their_packets() {
    on_both_families(Plan::default(), |mut world| {
        rules(
            &world,
            "add table IP copies; add chain IP copies post { type filter hook postrouting priority 0; }; \
             add rule IP copies post IP daddr X dup to GATEWAY device \"eth0\"",
        );
        for figures in in_both_modes(&mut world, "nft dup", |world| send(world, Denied)) {
            assert_eq!(figures.denied, COUNT as u64, "{figures}");
            passed_without_entry(&figures, COUNT, world.ipv6);
        }
    });
}

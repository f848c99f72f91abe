//! Packets without a conntrack entry: each passes, and is counted as that.

use super::figures::{Aim, Denied, Direct, Figures, in_both_modes, in_mode, send_all};
use super::world::{PORT, Plan, World, on_both_families};
use epguard_common::Mode;

const COUNT: usize = 200;

fn send(world: &World, aim: Aim) -> [u64; 3] {
    let socket = world.socket("shop/client");
    send_all(world, &socket, &[aim; COUNT])
}

/// Asserts that so many packets without an entry passed. In IPv6 neighbour solicitations are among
/// them.
#[track_caller]
fn passed_without_entry(figures: &Figures, packets: usize, ipv6: bool) {
    let packets = packets as u64;
    let exact = figures.no_connection == packets;
    assert!(
        exact || ipv6 && figures.no_connection > packets,
        "{figures}"
    );
}

/// Rules of nftables on node-a. `IP` is `ip` or `ip6`, `X` pod X, `VIP` the address of Service S,
/// `GATEWAY` a host outside.
fn rules(world: &World, text: &str) {
    let (ip, gateway) = if world.ipv6 {
        ("ip6", "fd00:250::1")
    } else {
        ("ip", "192.168.250.1")
    };
    let text = text
        .replace("VIP", &world.address(Denied).ip().to_string())
        .replace("IP", ip)
        .replace('X', &world.address(Direct).ip().to_string())
        .replace("GATEWAY", gateway);
    world.shell("node-a", &format!("nft '{text}'"));
}

/// Packets that a rule exempts from tracking, packets that are translated without conntrack, and
/// copies that a rule makes.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_rules_keep_from_conntrack_pass_and_are_counted() {
    let raw = "add table IP raw; add chain IP raw pre { type filter hook prerouting priority raw; }; \
               add rule IP raw pre ";
    let stateless =
        format!("{raw} IP daddr VIP udp dport 80 notrack IP daddr set X udp dport set {PORT}");
    let copies = "add table IP copies; add chain IP copies post { type filter hook postrouting priority 0; }; \
                  add rule IP copies post IP daddr X dup to GATEWAY device \"eth0\"";
    for (text, aim, denied) in [
        (&*format!("{raw} IP daddr X notrack"), Direct, 0),
        (&stateless, Denied, 0),
        (copies, Denied, COUNT as u64),
    ] {
        on_both_families(Plan::default(), |mut world| {
            rules(&world, text);
            for figures in in_both_modes(&mut world, text, |world| send(world, aim)) {
                assert_eq!(
                    (figures.denied, figures.no_intent),
                    (denied, 0),
                    "{figures}"
                );
                assert!(denied > 0 || figures.arrived == figures.aimed, "{figures}");
                passed_without_entry(&figures, COUNT, world.ipv6);
            }
        });
    }
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
        let figures = in_mode(&mut world, "mirred", Mode::Observe, |world| {
            send(world, Denied)
        });
        assert_eq!(figures.denied, COUNT as u64, "{figures}");
        passed_without_entry(&figures, COUNT, world.ipv6);
    });
}

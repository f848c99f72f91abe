//! Services that kube-proxy's other modes translate: iptables of both kinds, and the kernel's own
//! IPVS.

use super::figures::{Denied, Direct, Other, in_both_modes, interleaved, judged_right, send_all};
use super::world::{Plan, World, on_both_families};
use std::net::SocketAddr;
use std::path::Path;

/// Whether this kernel has IPVS. `cargo xtask kernel` runs one that has.
fn has_ipvs() -> bool {
    let there = Path::new("/proc/net/ip_vs").exists();
    if !there {
        println!("no module ip_vs is loaded");
    }
    there
}

/// What a program has to run for each Service and protocol, in the place of the proxy's rules.
fn instead(world: &World, before: &str, each: impl Fn(SocketAddr, &str) -> String) {
    let services = [Denied, Other].map(|service| world.address(service));
    let each = services.map(|vip| ["tcp", "udp"].map(|protocol| each(vip, protocol)).concat());
    world.shell(
        "node-a",
        &["nft flush ruleset\n", before, &each.concat()].concat(),
    );
}

/// `program`: `nft` or `legacy`.
fn iptables(world: &World, program: &str) {
    let iptables = if world.ipv6 { "ip6tables" } else { "iptables" };
    let endpoint = world.address(Direct);
    instead(world, "", |vip, protocol| {
        let to = format!("-d {} -p {protocol} --dport {}", vip.ip(), vip.port());
        ["PREROUTING", "OUTPUT"].map(|chain| {
            format!(
                "{iptables}-{program} -t nat -A {chain} {to} -j DNAT --to-destination {endpoint}\n"
            )
        }).concat()
    });
}

/// kube-proxy sets `conntrack` to 1, and masquerades what it marks: the rule makes the kernel track
/// connections.
fn ipvs(world: &World, conntrack: u8) {
    let endpoint = world.address(Direct);
    let iptables = if world.ipv6 { "ip6tables" } else { "iptables" };
    let before = format!(
        "{iptables}-nft -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
         ip link add kube-ipvs0 type dummy
         sysctl -qw net.ipv4.vs.conntrack={conntrack}\n"
    );
    instead(world, &before, |vip, protocol| {
        let option = &protocol[..1];
        format!(
            "ip addr replace {} dev kube-ipvs0
             ipvsadm -A -{option} {vip} -s rr
             ipvsadm -a -{option} {vip} -r {endpoint} -m\n",
            vip.ip()
        )
    });
}

/// From a pod and from a process on the node, each packet is judged by its own aim.
fn judged(case: &str, replace_proxy: impl Fn(&World)) {
    for host in ["shop/client", "node-a"] {
        on_both_families(Plan::default(), |mut world| {
            replace_proxy(&world);
            let socket = world.socket(host);
            let case = format!("{case}, from {host}");
            judged_right(&mut world, &case, |world| {
                send_all(world, &socket, &interleaved(3000))
            });
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_both_kinds_of_iptables_translate_are_judged_by_their_own_aim() {
    for program in ["nft", "legacy"] {
        judged(&format!("iptables-{program}"), |world| {
            iptables(world, program);
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_ipvs_translates_are_judged_by_their_own_aim() {
    if has_ipvs() {
        judged("IPVS", |world| ipvs(world, 1));
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_ipvs_takes_out_of_conntrack_pass_and_are_counted() {
    if !has_ipvs() {
        return;
    }
    on_both_families(Plan::default(), |mut world| {
        ipvs(&world, 0);
        let socket = world.socket("shop/client");
        let aims = [Denied; 200];
        for figures in in_both_modes(&mut world, "IPVS without conntrack", |world| {
            send_all(world, &socket, &aims)
        }) {
            assert_eq!(figures.arrived, figures.aimed, "{figures}");
            assert_eq!(figures.denied, 0, "{figures}");
            assert!(figures.no_connection >= aims.len() as u64, "{figures}");
        }
    });
}

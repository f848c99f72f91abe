//! Services that the kernel's own IPVS translates, as kube-proxy sets it up.

use super::figures::{Denied, Direct, Other, in_both_modes, interleaved, send_all};
use super::world::{Plan, World, on_both_families};
use std::path::Path;

/// Whether this kernel has IPVS. `cargo xtask kernel` runs one that has.
fn is_there() -> bool {
    let there = Path::new("/proc/net/ip_vs").exists();
    if !there {
        println!("no module ip_vs is loaded");
    }
    there
}

/// Puts IPVS in the place of the proxy's rules on node-a. kube-proxy sets `conntrack` to 1.
fn ipvs(world: &World, conntrack: u8) {
    world.shell(
        "node-a",
        &format!(
            "nft flush ruleset
             ip link add kube-ipvs0 type dummy
             sysctl -qw net.ipv4.vs.conntrack={conntrack}"
        ),
    );
    let endpoint = world.address(Direct);
    for vip in [Denied, Other].map(|service| world.address(service)) {
        let ip = vip.ip();
        world.shell("node-a", &format!("ip addr add {ip} dev kube-ipvs0"));
        for protocol in ["-t", "-u"] {
            world.shell(
                "node-a",
                &format!(
                    "ipvsadm -A {protocol} {vip} -s rr
                     ipvsadm -a {protocol} {vip} -r {endpoint} -m"
                ),
            );
        }
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_ipvs_translates_are_judged_by_their_own_aim() {
    for host in ["shop/client", "node-a"] {
        if !is_there() {
            return;
        }
        on_both_families(Plan::default(), |mut world| {
            ipvs(&world, 1);
            let socket = world.socket(host);
            let case = format!("IPVS, from {host}");
            let figures = in_both_modes(&mut world, &case, |world| {
                send_all(world, &socket, &interleaved(3000), 64)
            });
            for figures in &figures {
                figures.all_right(world.ipv6);
            }
        });
    }
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_ipvs_takes_out_of_conntrack_pass_and_are_counted() {
    if !is_there() {
        return;
    }
    on_both_families(Plan::default(), |mut world| {
        ipvs(&world, 0);
        let socket = world.socket("shop/client");
        let aims = [Denied; 200];
        for figures in in_both_modes(&mut world, "IPVS without conntrack", |world| {
            send_all(world, &socket, &aims, 64)
        }) {
            assert_eq!(figures.arrived, figures.aimed, "{figures}");
            assert_eq!(figures.denied, 0, "{figures}");
            assert!(figures.no_connection >= aims.len() as u64, "{figures}");
        }
    });
}

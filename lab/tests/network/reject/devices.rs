//! Checksums that are complete when the packet is rejected, or that the client's own device
//! completes in the answer; and a device without Ethernet headers, as the devices of `WireGuard`,
//! IPIP and TUN are.

use std::fs::File;

use epguard_common::{RawRole, Role};
use epguard_lab::net::NetNs;

use super::cluster::{CLIENTS, all_refused, count_invalid, reject, service, wrong};
use super::figures::Direct;
use super::world::{Plan, World, on_both_families};
use crate::net::cluster::PROTOCOLS;

fn without_offload(netns: &NetNs, device: &str) {
    let mut ethtool = netns.command("ethtool");
    assert!(
        ethtool
            .args(["-K", device, "tx", "off"])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn checksums_are_right_when_the_client_completes_its_own() {
    for remote in [false, true] {
        let plan = Plan {
            remote,
            ..Plan::default()
        };
        on_both_families(plan, |mut world| {
            count_invalid(&world);
            without_offload(world.netns("shop/client"), "eth0");
            without_offload(world.netns("node-b"), "eth0");
            reject(&mut world);
            all_refused(
                &world,
                &["shop/client", "node-b"],
                |client| service(&world, client),
                5,
            );
        });
    }
}

/// On the way back to the client the kernel completes the checksum that the client left to its
/// device.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn checksums_are_right_when_the_nodes_device_completes_them() {
    on_both_families(Plan::default(), |mut world| {
        count_invalid(&world);
        let link = world.link("shop/client").to_owned();
        without_offload(world.netns("node-a"), &link);
        reject(&mut world);
        for protocol in PROTOCOLS {
            let wrong = wrong(
                &world,
                "shop/client",
                protocol,
                service(&world, "shop/client"),
                5,
            );
            assert_eq!(wrong, None, "{protocol:?}");
        }
    });
}

/// Makes `node-a` send packets for pod X through a TUN device.
fn reroute(world: &mut World) -> File {
    let node = world.netns("node-a").clone();
    // It takes packets for as long as the file is open.
    let file = node.tun("t0", false).unwrap();
    let x = world.address(Direct).ip();
    world.shell(
        "node-a",
        &format!("ip link set t0 up; ip route replace {x} dev t0"),
    );
    let ifindex = node
        .run(|| nix::net::if_::if_nametoindex("t0"))
        .unwrap()
        .unwrap();
    let datapath = &mut world.hooks.datapath;
    node.run(|| datapath.hook(ifindex, "t0").map(drop))
        .unwrap()
        .unwrap();
    let role = RawRole {
        number: Role::Pod as u32 | RawRole::TAKES_ANSWERS,
    };
    world.hooks.writer.set_role(ifindex, Some(role)).unwrap();
    file
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn packets_that_leave_without_an_ethernet_header_are_answered_as_well() {
    on_both_families(Plan::default(), |mut world| {
        count_invalid(&world);
        let _file = reroute(&mut world);
        reject(&mut world);
        all_refused(&world, &CLIENTS, |client| service(&world, client), 21);
    });
}

//! Packets to the IP of a pod that is gone, and what does not lift that.

use std::net::SocketAddr;
use std::time::Duration;

use crate::aim::Direct;
use crate::cluster::{calls, faults, reject, rejected, service};
use crate::world::{PORT, Plan, World, on_both_families};
use epguard_common::{Addr, Mode, Outcome as Counted, Role, Uid};
use epguard_core::state::Vacant;
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::Outcome;

/// Nobody on the node holds the IP, as far as the datapath is told.
fn terminated(world: &mut World, ip: Addr) {
    let vacant = Vacant {
        dead: Uid { octets: [0xdd; 16] },
        mode: Mode::Enforce,
        lifted: None,
    };
    world.tables.terminated.insert(ip, vacant);
    world.hooks.install(&world.tables);
    let uplink = world
        .netns("node-a")
        .run(|| nix::net::if_::if_nametoindex("eth0").unwrap())
        .unwrap();
    world.hooks.writer.set_role(uplink, Some(Role::UPLINK));
}

/// A pod and a host outside get their answers from the From role, straight back.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn who_aims_at_an_ip_that_nobody_holds_is_refused_and_a_thousand_answers_lift_nothing() {
    on_both_families(Plan::default(), |mut world| {
        world.lab.remove_pod("bank/x").unwrap();
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip.into());
        reject(&mut world);
        for client in ["shop/client", "node-b"] {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let (before, answered) = (faults(&world, client), rejected(&world));
                let to = SocketAddr::new(ip, PORT);
                let seen = calls(&world, client, protocol, to, 250, Duration::from_secs(2));
                println!("direct, {client}, {ip}, {protocol}: {seen:?}");
                assert_eq!(seen.outcomes, [Outcome::Refused], "{client}");
                assert_eq!(rejected(&world) - answered, 250);
                assert_eq!(faults(&world, client), before);
            }
        }
        assert_eq!(world.hooks.packets(&[Counted::Lifted]), 0);
        assert_eq!(rejected(&world), 1000);
    });
}

/// The answers of the To role come in again as if the pod spoke.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_thousand_answers_to_packets_of_a_service_lift_nothing() {
    let plan = Plan {
        remote: true,
        ..Plan::default()
    };
    on_both_families(plan, |mut world| {
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip.into());
        reject(&mut world);
        for client in ["shop/client", "node-a"] {
            let to = service(&world, client);
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let seen = calls(&world, client, protocol, to, 250, Duration::from_secs(2));
                assert_eq!(seen.outcomes, [Outcome::Refused], "{client}");
            }
        }
        assert_eq!(world.hooks.packets(&[Counted::Lifted]), 0);
        assert_eq!(rejected(&world), 1000);
        let seen = calls(
            &world,
            "shop/client",
            Protocol::Tcp,
            SocketAddr::new(ip, PORT),
            3,
            Duration::from_secs(2),
        );
        assert_eq!(
            seen.outcomes,
            [Outcome::Refused],
            "still denied when aimed at directly"
        );
        assert_eq!(rejected(&world), 1003);
    });
}

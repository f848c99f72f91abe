//! Packets to an orphan IP, and packets that do not lift its denial.

use super::cluster::{refused, reject, rejected, service};
use super::figures::Direct;
use super::world::{PORT, Plan, World, on_both_families};
use epguard_common::{Addr, Mode, Outcome as Counted, Uid};
use epguard_core::state::OrphanIp;
use epguard_lab::proxy::Protocol;

/// Makes the address an orphan IP in the datapath.
fn terminated(world: &mut World, ip: Addr) {
    let vacant = OrphanIp { dead: Uid { octets: [0xdd; 16] }, mode: Mode::Enforce, lifted: None };
    world.tables.terminated.insert(ip, vacant);
    world.hooks.writer.install(&world.tables).unwrap();
}

/// A pod and a host outside get their answers from the ingress hook, straight back.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn clients_of_an_orphan_ip_are_refused_and_a_thousand_answers_lift_nothing() {
    on_both_families(Plan::default(), |mut world| {
        world.lab.remove_pod("bank/x").unwrap();
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip.into());
        reject(&mut world);
        for client in ["shop/client", "node-b"] {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let (seen, wrong) = refused(&world, client, protocol, (ip, PORT).into(), 250);
                println!("direct, {client}, {ip}, {protocol:?}: {seen:?}");
                assert_eq!(wrong, None, "{client}");
            }
        }
        assert_eq!(world.hooks.packets(&[Counted::Lifted]).unwrap(), 0);
        assert_eq!(rejected(&world), 1000);
    });
}

/// The answers of the egress hook enter the stack again as if the pod had sent them.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_thousand_answers_to_packets_of_a_service_lift_nothing() {
    let plan = Plan { remote: true, ..Plan::default() };
    on_both_families(plan, |mut world| {
        let ip = world.address(Direct).ip();
        terminated(&mut world, ip.into());
        reject(&mut world);
        for client in ["shop/client", "node-a"] {
            let to = service(&world, client);
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                assert_eq!(refused(&world, client, protocol, to, 250).1, None, "{client}");
            }
        }
        assert_eq!(world.hooks.packets(&[Counted::Lifted]).unwrap(), 0);
        assert_eq!(rejected(&world), 1000);
        let (_, wrong) = refused(&world, "shop/client", Protocol::Tcp, (ip, PORT).into(), 3);
        assert_eq!(wrong, None, "still denied when aimed at directly");
    });
}

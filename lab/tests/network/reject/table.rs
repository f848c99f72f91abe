//! The result of each client, in every case that the lab can build: of a Service that leads to a
//! pod, and of one that leads to an IP that no pod has any more.

use std::time::Duration;

use epguard_common::{Action, AnswerLimits};
use epguard_lab::net::{Cni, Overlay, TopologyOptions};
use epguard_lab::proxy::{Protocol, ProxyOptions};
use epguard_lab::traffic::Outcome;

use super::cluster::{CLIENTS, calls, count_invalid, enforce, reject, service, wrong};
use super::world::{Plan, World};
use crate::net::cluster::PROTOCOLS;

const fn plan(cni: Cni, overlay: Overlay, remote: bool, masquerade_all: bool) -> Plan {
    let options = TopologyOptions { cni, overlay };
    let proxy = ProxyOptions { masquerade_all };
    Plan {
        options,
        proxy,
        ipv6: false,
        remote,
    }
}

const CLUSTERS: [Plan; 9] = [
    plan(Cni::Ptp, Overlay::None, false, false),
    plan(Cni::Ptp, Overlay::None, true, false),
    plan(Cni::Ptp, Overlay::Vxlan, true, false),
    plan(Cni::Ptp, Overlay::None, false, true),
    plan(Cni::Ptp, Overlay::None, true, true),
    plan(Cni::Bridge, Overlay::None, false, false),
    plan(Cni::Bridge, Overlay::None, false, true),
    plan(Cni::Bridge, Overlay::None, true, false),
    plan(Cni::Bridge, Overlay::Vxlan, true, false),
];

/// On a bridge a packet to a local IP that no pod has waits for a neighbour, and reaches no hook.
const WITHOUT_A_POD: [Plan; 3] = [CLUSTERS[0], CLUSTERS[1], CLUSTERS[7]];

/// Asserts that nothing is wrong with any client's calls in both protocols, in all these clusters.
fn nothing_is_wrong(
    plans: &[Plan],
    prepare: impl Fn(&mut World),
    wrong: impl Fn(&mut World, &str, Protocol) -> Option<String>,
) {
    let mut all = Vec::new();
    for (plan, ipv6) in plans
        .iter()
        .flat_map(|plan| [false, true].map(|ipv6| (*plan, ipv6)))
    {
        let plan = Plan { ipv6, ..plan };
        println!("{plan:?}");
        let mut world = World::new(plan);
        prepare(&mut world);
        for (client, protocol) in CLIENTS
            .into_iter()
            .flat_map(|client| PROTOCOLS.map(|of| (client, of)))
        {
            let wrong = wrong(&mut world, client, protocol);
            all.extend(wrong.map(|wrong| format!("{plan:?}, {client}, {protocol:?}: {wrong}")));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn every_client_is_refused_at_once_wherever_the_packet_reaches_a_hook() {
    nothing_is_wrong(
        &CLUSTERS,
        |world| count_invalid(world),
        |world, client, protocol| {
            let to = service(world, client);
            enforce(world, Action::Drop, AnswerLimits::default());
            let dropped = calls(world, client, protocol, to, 1, Duration::from_millis(100));
            reject(world);
            let wrong = wrong(world, client, protocol, to, 21);
            (dropped != [Outcome::TimedOut])
                .then(|| format!("under drop {dropped:?}"))
                .or(wrong)
        },
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn clients_are_refused_at_once_unless_the_packet_waits_for_a_neighbour() {
    let without_a_pod = |world: &mut World| {
        world.lab.remove_pod("bank/x").unwrap();
        reject(world);
    };
    nothing_is_wrong(&WITHOUT_A_POD, without_a_pod, |world, client, protocol| {
        let seen = calls(
            world,
            client,
            protocol,
            service(world, client),
            5,
            Duration::from_secs(4),
        );
        (seen != [Outcome::Refused]).then(|| format!("{seen:?}"))
    });
}

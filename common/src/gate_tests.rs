use super::*;
extern crate std;
use std::collections::BTreeSet;

fn view() -> View {
    View {
        suspects: 1,
        terminated: 1,
        ..View::default()
    }
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "octets")]
fn addresses_of_a_cluster_spread_over_the_buckets() {
    let v4 = |pod: u32| Addr::v4([10, 244, (pod >> 8) as u8, pod as u8]);
    let v6 = |pod: u32| {
        let mut octets = [0; 16];
        octets[0] = 0xfd;
        octets[5] = (pod >> 8) as u8;
        octets[15] = pod as u8;
        Addr::v6(octets)
    };
    let services = |pod: u32| Addr::v4([10, 96 + (pod >> 8) as u8, pod as u8, 1]);
    let kinds: [&dyn Fn(u32) -> Addr; 3] = [&v4, &v6, &services];
    for (kind, addr) in kinds.iter().enumerate() {
        for place in [Hash::first, Hash::second] {
            let places = |pods| -> BTreeSet<usize> {
                (0..pods)
                    .map(|pod| place(Hash::of(addr(pod).words())))
                    .collect()
            };
            // 2,048 random choices of 8,192 give 1,812 different ones.
            let buckets = places(2_048).len();
            assert!(buckets > 1_700, "kind {kind}: {buckets} buckets");
            let node = places(256).len();
            assert!(node > 240, "kind {kind}: {node} of a node's 256");
        }
    }
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "octets")]
fn few_addresses_share_their_buckets_in_both_tables_with_another_one() {
    let pod = |net: u8, pod: u32| Addr::v4([10, net, (pod >> 8) as u8, pod as u8]);
    let mut gates = Gates::EMPTY;
    (0..2_048).for_each(|number| gates.add(pod(244, number), Gate::SUSPECT));
    assert!((0..2_048).all(|number| gates.flags_at(pod(244, number)) == Gate::SUSPECT));
    let innocent =
        |table: &dyn Fn(Addr) -> u8| (0..4_096).filter(|it| table(pod(245, *it)) != 0).count();
    let first = innocent(&|addr| gates.first.buckets[Hash::of(addr.words()).first()]);
    let both = innocent(&|addr| gates.flags_at(addr));
    // A fifth of all buckets has a bit.
    assert!(
        first > 600 && both < 300,
        "{first} in the first table, {both} in both"
    );
}

#[test]
fn a_packet_needs_a_verdict_by_its_destination_as_a_sign_of_a_holder_or_in_a_redirected_flow() {
    let with = |src, dst| Glance { src, dst };
    for (glance, at_ingress, at_egress) in [
        (with(0, 0), false, false),
        (with(0, Gate::SUSPECT), false, true),
        (with(0, Gate::TERMINATED), false, true),
        (with(Gate::TERMINATED, 0), false, true),
        (with(Gate::SUSPECT, 0), false, false),
        (with(Gate::FLOW, 0), true, true),
        (with(0, Gate::FLOW), false, true),
    ] {
        let asks = (glance.asks_at_ingress(&view()), glance.asks_at_egress());
        assert_eq!(asks, (at_ingress, at_egress), "{glance:?}");
    }
    let beside_lb = View {
        socket_lb: View::FOUND,
        ..view()
    };
    assert!(with(0, Gate::SUSPECT).asks_at_ingress(&beside_lb));
}

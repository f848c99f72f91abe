use super::*;
extern crate std;
use std::collections::BTreeSet;
use std::vec::Vec;

fn view() -> View {
    View { suspects: 1, terminated: 1, ..View::default() }
}

const PLAIN: Glance = Glance { src: 0, dst: 0, protocol: TCP, is_v6: false };

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
        let buckets: BTreeSet<usize> = (0..2_048).map(|pod| bucket(addr(pod).words())).collect();
        // 2,048 random choices of 8,192 give 1,812 different ones.
        assert!(buckets.len() > 1_700, "kind {kind}: {} buckets", buckets.len());
        let node: BTreeSet<usize> = (0..256).map(|pod| bucket(addr(pod).words())).collect();
        assert!(node.len() > 240, "kind {kind}: {} of a node's 256", node.len());
    }
}

#[test]
fn a_packet_needs_a_verdict_by_its_destination_as_a_sign_of_a_holder_or_in_a_redirected_flow() {
    let with = |src, dst| Glance { src, dst, ..PLAIN };
    for (glance, at_ingress, at_egress) in [
        (with(0, 0), false, false),
        (with(0, Gate::SUSPECT), false, true),
        (with(0, Gate::TERMINATED), true, false),
        (with(Gate::TERMINATED, 0), true, true),
        (with(Gate::SUSPECT, 0), false, false),
        (with(Gate::FLOW, 0), true, true),
        (with(0, Gate::FLOW), false, true),
    ] {
        let asks = (glance.asks_at_ingress(&view()), glance.asks_at_egress(&view()));
        assert_eq!(asks, (at_ingress, at_egress), "{glance:?}");
    }
    let beside_lb = View { socket_lb: View::FOUND, ..view() };
    assert!(with(0, Gate::SUSPECT).asks_at_ingress(&beside_lb));
}

#[test]
fn a_packet_that_may_advertise_a_neighbour_needs_a_verdict_while_there_are_orphan_ips() {
    let v6 = |protocol| Glance { protocol, is_v6: true, ..PLAIN };
    let table: Vec<_> = [(TCP, false), (UDP, false), (58, true), (0, true), (60, true)].into();
    let none = View { terminated: 0, ..view() };
    for (protocol, asks) in table {
        assert_eq!(v6(protocol).asks_about_orphans(&view()), asks, "{protocol}");
        assert!(!v6(protocol).asks_about_orphans(&none), "{protocol}");
    }
}

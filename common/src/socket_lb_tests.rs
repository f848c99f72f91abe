use super::*;
use crate::PENDING_NS;
use crate::testing::{DENIED, DENYING, Node, OBSERVED};

const NOW: u64 = 1_000;
const EPOCH: u32 = 5;

const fn vip(last: u8, protocol: u8) -> Vip {
    Vip {
        addr: Addr::v4([10, 96, 0, last]),
        port: 80,
        protocol,
        reserved: 0,
    }
}

const fn endpoint(last: u8, protocol: u8) -> Vip {
    Vip {
        addr: Addr::v4([10, 244, 1, last]),
        port: 8080,
        protocol,
        reserved: 0,
    }
}

fn packet(protocol: u8) -> Packet {
    packet_of(&endpoint(7, protocol))
}

#[test]
fn only_an_enforced_denial_stops_a_call() {
    let off = Verdict::Pass(Reason::Reused, crate::Outcome::Off);
    for verdict in [Verdict::Clear, off, OBSERVED] {
        let decision = decide_call(&packet(TCP), verdict, &DENYING);
        assert_eq!(decision, CallDecision::Pass);
    }
    assert_eq!(
        decide_call(&packet(TCP), DENIED, &DENYING),
        CallDecision::Refuse
    );
}

fn decided(protocol: u8, node: Node) -> CallDecision {
    decide_call(&packet(protocol), DENIED, &node)
}

#[test]
fn a_dropped_call_of_tcp_waits_where_its_packets_are_judged_and_others_are_refused() {
    for configured in [Action::Unset, Action::Drop] {
        let node = Node {
            own: Action::Unset,
            configured,
            ..DENYING
        };
        assert_eq!(decided(TCP, node), CallDecision::Wait, "{configured}");
        assert_eq!(
            decided(
                TCP,
                Node {
                    judged: false,
                    ..node
                }
            ),
            CallDecision::RefuseUnseen,
            "{configured}"
        );
        assert_eq!(
            decided(UDP, node),
            CallDecision::RefuseUnseen,
            "{configured}"
        );
    }
}

#[test]
fn an_observed_call_is_left_to_its_packets_only_where_an_enforced_one_would_wait() {
    let dropping = Node {
        own: Action::Unset,
        configured: Action::Drop,
        ..DENYING
    };
    let unjudged = Node {
        judged: false,
        ..dropping
    };
    let off = Verdict::Pass(Reason::Reused, crate::Outcome::Off);
    for (verdict, protocol, node, expected) in [
        (OBSERVED, TCP, &dropping, CallDecision::PassUncounted),
        (OBSERVED, TCP, &DENYING, CallDecision::Pass),
        (OBSERVED, TCP, &unjudged, CallDecision::Pass),
        (OBSERVED, UDP, &dropping, CallDecision::Pass),
        (off, TCP, &dropping, CallDecision::Pass),
    ] {
        assert_eq!(decide_call(&packet(protocol), verdict, node), expected);
    }
}

#[test]
fn only_tcp_with_a_live_endpoint_is_redirected() {
    let node = Node {
        own: Action::Redirect,
        configured: Action::Drop,
        ..DENYING
    };
    assert_eq!(decided(TCP, node), CallDecision::Redirect);
    assert_eq!(
        decided(
            TCP,
            Node {
                backend: false,
                ..node
            }
        ),
        CallDecision::Refuse
    );
    assert_eq!(decided(UDP, node), CallDecision::Refuse);
}

#[test]
fn a_call_is_counted_as_its_packet_or_by_its_packets_where_these_are_judged() {
    let table = [
        (CallDecision::Pass, Some(Decision::Pass)),
        (CallDecision::PassUncounted, None),
        (CallDecision::Wait, None),
        (CallDecision::Refuse, Some(Decision::Reject)),
        (CallDecision::RefuseUnseen, Some(Decision::Reject)),
        (CallDecision::Redirect, Some(Decision::Redirect)),
    ];
    for (decision, counted) in table {
        assert_eq!(decision.as_of_packet(), counted, "{decision:?}");
    }
}

#[test]
fn a_connection_has_the_packets_to_its_endpoint() {
    let connection = Connection::new(vip(1, TCP), endpoint(7, TCP), EPOCH, NOW);
    assert!(connection.has(&packet(TCP), EPOCH, NOW));
    let table = [
        Packet {
            dst: Addr::v4([10, 244, 1, 8]),
            ..packet(TCP)
        },
        Packet {
            dst_port: 8081,
            ..packet(TCP)
        },
        packet(UDP),
        Packet {
            transport: Transport::Fragment,
            ..packet(TCP)
        },
    ];
    for (row, other) in table.iter().enumerate() {
        assert!(!connection.has(other, EPOCH, NOW), "row {row}");
    }
    assert!(
        !connection.has(&packet(TCP), EPOCH, NOW - 1),
        "before it was made"
    );
}

#[test]
fn datagrams_count_once_those_of_an_earlier_call_have_left() {
    let of =
        |protocol| Connection::new(vip(1, protocol), endpoint(7, protocol), EPOCH, NOW).settled_ns;
    assert_eq!(of(UDP), NOW + PENDING_NS);
    assert_eq!(of(TCP), NOW);
}

#[test]
fn a_connection_from_before_the_hooks_missed_calls_has_no_packets() {
    let connection = Connection::new(vip(1, TCP), endpoint(7, TCP), EPOCH, NOW);
    assert!(!connection.has(&packet(TCP), EPOCH + 1, NOW));
}

#[test]
fn a_datagram_to_the_same_endpoint_by_another_way_blurs_the_connection() {
    let connection = Connection::new(vip(1, UDP), endpoint(7, UDP), EPOCH, NOW);
    assert!(connection.is_blurred_by(&vip(2, UDP), &endpoint(7, UDP)));
    assert!(connection.is_blurred_by(&endpoint(7, UDP), &endpoint(7, UDP)));
    assert!(!connection.is_blurred_by(&vip(1, UDP), &endpoint(7, UDP)));
    assert!(!connection.is_blurred_by(&vip(2, UDP), &endpoint(8, UDP)));
}

#[test]
fn a_call_is_known_again_only_by_its_socket_and_its_thread_and_only_whole() {
    let call = Call::new(7, 9, vip(1, TCP));
    assert!(call.is_of(7, 9));
    assert!(!call.is_of(7, 8) && !call.is_of(6, 9));
    assert!(!Call::default().is_of(0, 0));
    for other in [
        vip(2, TCP),
        vip(1, UDP),
        Vip {
            port: 81,
            ..vip(1, TCP)
        },
    ] {
        assert!(!Call { vip: other, ..call }.is_of(7, 9), "{other:?}");
    }
}

#[test]
fn calls_of_one_pod_share_a_sticky_choice_and_its_sockets_spread_over_the_others() {
    let backends = |sticky| {
        let live = (1..=3).map(|last| crate::Backend {
            addr: Addr::v4([10, 244, 1, last]),
            ..crate::Backend::default()
        });
        crate::Backends::new(sticky, live)
    };
    let chosen = |sticky, netns, cookie| {
        backends(sticky).choose(&packet_from(&endpoint(7, TCP), netns, cookie))
    };
    assert!((0..100).all(|cookie| chosen(true, 5, cookie) == chosen(true, 5, 0)));
    assert!((0..100).any(|cookie| chosen(false, 5, cookie) != chosen(false, 5, 0)));
    assert!((0..100).any(|netns| chosen(true, netns, 0) != chosen(true, 0, 0)));
}

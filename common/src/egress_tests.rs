//! One packet to one suspect at the egress hook: with a denial, in a redirected flow, or without a
//! Service.

use super::*;
use crate::testing::{ACK, DENIED, DENYING, Node};
use crate::{Intent, Outcome, Reason, Transport};

#[test]
fn a_packet_of_a_redirected_flow_follows_it_before_any_verdict_and_a_copy_is_not_counted_again() {
    let redirected = Node {
        redirected: true,
        ..DENYING
    };
    let copy = Node {
        copy: true,
        ..DENYING
    };
    let follows = (Verdict::Clear, Decision::Follow);
    let expired = (
        Verdict::Pass(Reason::Reused, Outcome::LeaseExpired),
        Decision::Pass,
    );
    for (name, node, expected) in [
        ("a redirected flow", redirected, follows),
        (
            "its denial is gone",
            Node {
                proof: None,
                ..redirected
            },
            follows,
        ),
        ("another flow", DENYING, (DENIED, Decision::Reject)),
        (
            "the lease has ended",
            Node {
                fresh: false,
                ..redirected
            },
            expired,
        ),
        (
            "a copy of a denied packet",
            copy,
            (Verdict::Clear, Decision::Drop),
        ),
        (
            "a copy in a redirected flow",
            Node {
                copy: true,
                ..redirected
            },
            (Verdict::Clear, Decision::Drop),
        ),
        (
            "a copy that passes",
            Node {
                intent: Intent::None,
                ..copy
            },
            (Verdict::Clear, Decision::Pass),
        ),
    ] {
        assert_eq!(decide_egress(&ACK, &node), expected, "{name}");
    }
    let fragment = Packet {
        transport: Transport::Fragment,
        network_at: 4,
        ..ACK
    };
    assert_eq!(
        decide_egress(&fragment, &redirected).0,
        DENIED,
        "fragments are not redirected"
    );
}

#[test]
fn only_the_same_packet_of_a_connection_at_another_port_at_once_is_a_copy() {
    let first = Judged {
        reference: 0x1000,
        at_ns: 5_000_000,
        length: 74,
        ifindex: 4,
        ports: 0x6_1f90_9c40,
    };
    let second = Judged {
        ifindex: 5,
        ..first
    };
    assert!(second.is_copy_of(&first));
    for (name, other) in [
        ("the next packet at the same port", first),
        (
            "another connection",
            Judged {
                reference: 0x2000,
                ..second
            },
        ),
        (
            "another connection whose entry lies where one was that has ended",
            Judged {
                ports: 0x6_1f90_9c41,
                ..second
            },
        ),
        (
            "another length",
            Judged {
                length: 75,
                ..second
            },
        ),
        (
            "later",
            Judged {
                at_ns: 6_000_001,
                ..second
            },
        ),
    ] {
        assert!(!other.is_copy_of(&first), "{name}");
    }
    assert!(!second.is_copy_of(&Judged::default()));
    // 7: IP_CT_UNTRACKED without an entry, as of all packets that are not tracked.
    for reference in [0, 7] {
        let [one, other] = [first, second].map(|judged| Judged {
            reference,
            ..judged
        });
        assert!(
            !other.is_copy_of(&one),
            "packets without a connection: {reference}"
        );
    }
}

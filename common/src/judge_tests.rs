//! One packet each to one suspect with one denial.

use super::*;
use crate::testing::{ACK, DENIED, DENYING, Node, OBSERVED, PROOF, SYN, X};
use crate::{ServiceNumber, Transport};

#[test]
fn only_flows_of_a_service_to_its_dead_pod_are_denied_and_a_pass_names_its_cause() {
    let pass = Verdict::Pass;
    let (off, nothing) = (pass(Reason::Reused, Outcome::Off), |outcome| {
        pass(Reason::Nothing, outcome)
    });
    let of = |number, port| Intent::Endpoint(DenialKey::new(X, ServiceNumber { number }, port, 6));
    let means = |intent| Node { intent, ..DENYING };
    let proof = |proof| Node {
        proof: Some(proof),
        ..DENYING
    };
    let bound = |mode| proof(Proof { mode, ..PROOF });
    let retired = Proof {
        reason: Reason::RetiredBackend,
        uid_state: UidState::Retired,
        ..PROOF
    };
    let denied_as_retired = Verdict::Deny {
        reason: Reason::RetiredBackend,
        enforce: true,
    };
    let to_another = Packet {
        dst: Addr::v4([10, 244, 1, 11]),
        ..SYN
    };
    let fragment = Packet {
        transport: Transport::Fragment,
        dst_port: 0,
        ..ACK
    };
    let icmp_error = Packet {
        transport: Transport::Other,
        ..fragment
    };
    for (name, packet, node, expected) in [
        ("a new flow", SYN, DENYING, DENIED),
        ("an established one", ACK, DENYING, DENIED),
        ("a later fragment", fragment, DENYING, DENIED),
        ("an ICMP error", icmp_error, DENYING, DENIED),
        (
            "an IP that is no suspect is not counted",
            to_another,
            DENYING,
            Verdict::Clear,
        ),
        ("observe by annotation", SYN, bound(Mode::Observe), OBSERVED),
        (
            "observe by the operator",
            SYN,
            Node {
                mode: Mode::Observe,
                ..DENYING
            },
            OBSERVED,
        ),
        (
            "observe by reason",
            SYN,
            Node {
                of_reason: Mode::Observe,
                ..DENYING
            },
            OBSERVED,
        ),
        ("off by annotation", SYN, bound(Mode::Off), off),
        (
            "off by the operator",
            SYN,
            Node {
                mode: Mode::Off,
                ..DENYING
            },
            off,
        ),
        (
            "off by reason",
            SYN,
            Node {
                of_reason: Mode::Off,
                ..DENYING
            },
            off,
        ),
        (
            "stopped",
            SYN,
            proof(Proof {
                stopped: true,
                ..PROOF
            }),
            OBSERVED,
        ),
        (
            "stopped, established",
            ACK,
            proof(Proof {
                stopped: true,
                ..PROOF
            }),
            OBSERVED,
        ),
        (
            "direct traffic to the new owner",
            SYN,
            means(Intent::None),
            nothing(Outcome::NoIntent),
        ),
        (
            "untracked",
            SYN,
            means(Intent::NoConnection),
            nothing(Outcome::NoConnection),
        ),
        (
            "a contradiction",
            SYN,
            means(Intent::Unreadable),
            nothing(Outcome::UnreadableConnection),
        ),
        (
            "another Service",
            SYN,
            means(of(2, 8080)),
            nothing(Outcome::NotDenied),
        ),
        (
            "another port",
            SYN,
            means(of(1, 9090)),
            nothing(Outcome::NotDenied),
        ),
        (
            "a new flow to a retired pod",
            SYN,
            proof(retired),
            denied_as_retired,
        ),
        (
            "an old one",
            ACK,
            proof(retired),
            pass(Reason::RetiredBackend, Outcome::Established),
        ),
        (
            "a proof about a live pod",
            SYN,
            proof(Proof {
                uid_state: UidState::Live,
                ..PROOF
            }),
            pass(Reason::Reused, Outcome::Established),
        ),
        (
            "past the lease",
            SYN,
            Node {
                fresh: false,
                ..DENYING
            },
            pass(Reason::Reused, Outcome::LeaseExpired),
        ),
        (
            "a terminating pod",
            SYN,
            Node {
                flags: Suspect::DRAINING,
                ..DENYING
            },
            nothing(Outcome::Draining),
        ),
        (
            "a terminating pod at an IP with a denial",
            SYN,
            Node {
                flags: Suspect::DENIED | Suspect::DRAINING,
                ..means(Intent::None)
            },
            nothing(Outcome::Draining),
        ),
        (
            "a suspect that is none any more",
            SYN,
            Node {
                flags: 0,
                ..DENYING
            },
            nothing(Outcome::NotDenied),
        ),
    ] {
        assert_eq!(judge(&packet, &node), expected, "{name}");
    }
}

//! One packet each to one suspect with one denial.

use super::*;
use crate::testing::{ACK, DENIED, DENYING, Node, OBSERVED, PROOF, SYN, X, denying_but};
use crate::{ServiceNumber, Transport};

const OFF: Verdict = Verdict::Pass(Reason::Reused, Outcome::Off);

fn uncounted(outcome: Outcome) -> Verdict {
    Verdict::Pass(Reason::Nothing, outcome)
}

/// The packet's client asked for this.
fn means(intent: Intent) -> Node {
    denying_but(|node| node.intent = intent)
}

/// The denial has another proof.
fn proven_by(change: impl FnOnce(&mut Proof)) -> Node {
    let mut proof = PROOF;
    change(&mut proof);
    denying_but(|node| node.proof = Some(proof))
}

#[test]
fn packets_of_every_shape_from_a_service_to_its_dead_pod_are_denied() {
    let fragment = Packet {
        transport: Transport::Fragment,
        dst_port: 0,
        ..ACK
    };
    let icmp_error = Packet {
        transport: Transport::Other,
        ..fragment
    };
    for (name, packet) in [
        ("a new flow", SYN),
        ("an established one", ACK),
        ("a later fragment", fragment),
        ("an ICMP error", icmp_error),
    ] {
        assert_eq!(judge_packet(&packet, &DENYING), DENIED, "{name}");
    }
    let to_another = Packet {
        dst: Addr::v4([10, 244, 1, 11]),
        ..SYN
    };
    assert_eq!(
        judge_packet(&to_another, &DENYING),
        Verdict::Clear,
        "an IP that is no suspect is not counted"
    );
}

#[test]
fn the_lowest_of_all_modes_is_in_force_and_a_stopped_denial_is_observed() {
    let observe = |node: &mut Node| node.mode = Mode::Observe;
    let observe_reason = |node: &mut Node| node.of_reason = Mode::Observe;
    let bound = |mode| proven_by(|proof| proof.mode = mode);
    let stopped = proven_by(|proof| proof.stopped = true);
    for (name, packet, node, expected) in [
        ("observe by annotation", SYN, bound(Mode::Observe), OBSERVED),
        (
            "observe by the operator",
            SYN,
            denying_but(observe),
            OBSERVED,
        ),
        (
            "observe by reason",
            SYN,
            denying_but(observe_reason),
            OBSERVED,
        ),
        ("off by annotation", SYN, bound(Mode::Off), OFF),
        (
            "off by the operator",
            SYN,
            denying_but(|node| node.mode = Mode::Off),
            OFF,
        ),
        (
            "off by reason",
            SYN,
            denying_but(|node| node.of_reason = Mode::Off),
            OFF,
        ),
        ("stopped", SYN, stopped, OBSERVED),
        ("stopped, established", ACK, stopped, OBSERVED),
    ] {
        assert_eq!(judge_packet(&packet, &node), expected, "{name}");
    }
}

#[test]
fn what_is_not_aimed_at_the_denied_endpoint_passes() {
    let endpoint =
        |number, port| Intent::Endpoint(DenialKey::new(X, ServiceNumber { number }, port, 6));
    for (name, intent, expected) in [
        ("direct traffic", Intent::None, Outcome::NoIntent),
        ("untracked", Intent::NoConnection, Outcome::NoConnection),
        (
            "a contradiction",
            Intent::Unreadable,
            Outcome::UnreadableConnection,
        ),
        ("another Service", endpoint(2, 8080), Outcome::NotDenied),
        ("another port", endpoint(1, 9090), Outcome::NotDenied),
    ] {
        assert_eq!(
            judge_packet(&SYN, &means(intent)),
            uncounted(expected),
            "{name}"
        );
    }
}

#[test]
fn a_retired_pod_keeps_its_connections_and_a_live_one_gets_all() {
    let retired = proven_by(|proof| {
        proof.reason = Reason::RetiredBackend;
        proof.uid_state = UidState::Retired;
    });
    let denied_as_retired = Verdict::Deny {
        reason: Reason::RetiredBackend,
        enforce: true,
    };
    assert_eq!(judge_packet(&SYN, &retired), denied_as_retired);
    let established = |reason| Verdict::Pass(reason, Outcome::Established);
    assert_eq!(
        judge_packet(&ACK, &retired),
        established(Reason::RetiredBackend)
    );
    let live = proven_by(|proof| proof.uid_state = UidState::Live);
    assert_eq!(judge_packet(&SYN, &live), established(Reason::Reused));
}

#[test]
fn past_the_lease_and_without_a_denial_of_the_suspect_packets_pass() {
    let past_the_lease = denying_but(|node| node.fresh = false);
    let expired = Verdict::Pass(Reason::Reused, Outcome::LeaseExpired);
    assert_eq!(judge_packet(&SYN, &past_the_lease), expired);

    let mut draining_beside_a_denial = means(Intent::None);
    draining_beside_a_denial.flags = Suspect::DENIED | Suspect::DRAINING;
    for (name, node, expected) in [
        (
            "a terminating pod",
            denying_but(|node| node.flags = Suspect::DRAINING),
            Outcome::Draining,
        ),
        (
            "a terminating pod at an IP with a denial",
            draining_beside_a_denial,
            Outcome::Draining,
        ),
        (
            "a suspect that is none any more",
            denying_but(|node| node.flags = 0),
            Outcome::NotDenied,
        ),
    ] {
        assert_eq!(judge_packet(&SYN, &node), uncounted(expected), "{name}");
    }
}

//! One denied packet, and what can be done with it.

use super::*;
use crate::testing::{ACK, DENIED, DENYING, Node, OBSERVED, Octets, SYN};
use crate::{Effect, Transport};

fn decided(packet: &Packet, own: Action, node: Node) -> Decision {
    decide(packet, DENIED, &Node { own, ..node })
}

#[test]
fn every_action_is_counted_as_its_own_outcome() {
    for action in Action::ALL
        .into_iter()
        .filter(|action| *action != Action::Unset)
    {
        let (_, outcome) = DENIED.counted_as(decided(&SYN, action, DENYING)).unwrap();
        assert_eq!(outcome.effect(), Effect::Stopped(action), "{action}");
    }
    for (verdict, decision, expected) in [
        (DENIED, Decision::DropUnanswered, Some(Outcome::Dropped)),
        (DENIED, Decision::DropUnanswerable, Some(Outcome::Dropped)),
        (OBSERVED, Decision::Pass, Some(Outcome::Observed)),
        (Verdict::Clear, Decision::Pass, None),
    ] {
        let outcome = verdict.counted_as(decision).map(|(_, outcome)| outcome);
        assert_eq!(outcome, expected, "{verdict:?} {decision:?}");
    }
}

#[test]
fn only_an_enforced_denial_does_more_than_pass() {
    let redirect = Node {
        own: Action::Redirect,
        ..DENYING
    };
    for verdict in [
        Verdict::Clear,
        Verdict::Pass(Reason::Reused, Outcome::Off),
        OBSERVED,
    ] {
        assert_eq!(
            decide(&SYN, verdict, &redirect),
            Decision::Pass,
            "{verdict:?}"
        );
    }
}

#[test]
fn the_denials_own_action_comes_before_that_of_config() {
    for (own, configured, expected) in [
        (Action::Unset, Action::Unset, Decision::Drop),
        (Action::Unset, Action::Drop, Decision::Drop),
        (Action::Unset, Action::Reject, Decision::Reject),
        (Action::Unset, Action::Redirect, Decision::Redirect),
        (Action::Drop, Action::Reject, Decision::Drop),
        (Action::Reject, Action::Drop, Decision::Reject),
        (Action::Redirect, Action::Drop, Decision::Redirect),
    ] {
        assert_eq!(
            decided(
                &SYN,
                own,
                Node {
                    configured,
                    ..DENYING
                }
            ),
            expected,
            "{own:?} {configured:?}"
        );
    }
}

#[test]
fn a_packet_that_cannot_be_redirected_is_rejected_and_one_that_must_not_be_answered_is_dropped() {
    let with = |fragmentation, tcp_flags| Node {
        octets: Octets {
            fragmentation,
            tcp_flags,
        },
        ..DENYING
    };
    let (redirect, reject) = (Action::Redirect, Action::Reject);
    let datagram = Packet {
        protocol: 17,
        ..ACK
    };
    let tagged = Packet {
        network_at: 4,
        transport_at: 24,
        ..SYN
    };
    let fragment = Packet {
        transport: Transport::Fragment,
        ..SYN
    };
    for (name, packet, own, node, expected) in [
        (
            "a first fragment",
            SYN,
            redirect,
            with(0x20, 2),
            Decision::Reject,
        ),
        (
            "no live endpoint",
            SYN,
            redirect,
            Node {
                backend: None,
                ..DENYING
            },
            Decision::Reject,
        ),
        (
            "its IP is not its own",
            SYN,
            redirect,
            Node {
                live: false,
                ..DENYING
            },
            Decision::Reject,
        ),
        (
            "no route to it",
            SYN,
            redirect,
            Node {
                route: false,
                ..DENYING
            },
            Decision::Reject,
        ),
        (
            "an open TCP connection",
            ACK,
            redirect,
            DENYING,
            Decision::Reject,
        ),
        ("UDP", datagram, redirect, DENYING, Decision::Redirect),
        (
            "behind a VLAN tag",
            tagged,
            redirect,
            DENYING,
            Decision::Reject,
        ),
        ("RST", SYN, reject, with(0x40, 4), Decision::Drop),
        (
            "a broadcast frame",
            SYN,
            reject,
            Node {
                to_many: true,
                ..DENYING
            },
            Decision::Drop,
        ),
        (
            "beyond the limits",
            SYN,
            reject,
            Node {
                room: false,
                ..DENYING
            },
            Decision::DropUnanswered,
        ),
        (
            "no way to the client",
            SYN,
            reject,
            Node {
                way: false,
                ..DENYING
            },
            Decision::DropUnanswerable,
        ),
        (
            "a later fragment",
            fragment,
            reject,
            DENYING,
            Decision::Drop,
        ),
    ] {
        assert_eq!(decided(&packet, own, node), expected, "{name}");
    }
    assert_eq!(
        Decision::DropUnanswered.counted_beside(),
        Some(Outcome::AnswerSuppressed)
    );
    assert_eq!(
        Decision::DropUnanswerable.counted_beside(),
        Some(Outcome::Unanswerable)
    );
    assert_eq!(Decision::Drop.counted_beside(), None);
}

#[test]
fn an_xdp_program_drops_and_rejects_and_leaves_the_rest_to_tc() {
    for (decision, can_reject, expected) in [
        (Decision::Pass, true, Decision::Pass),
        (Decision::Drop, false, Decision::Drop),
        (Decision::DropUnanswered, false, Decision::DropUnanswered),
        (Decision::Reject, true, Decision::Reject),
        (Decision::Reject, false, Decision::Pass),
        (Decision::Redirect, true, Decision::Pass),
    ] {
        assert_eq!(decision.before_tc(|| can_reject), expected, "{decision:?}");
    }
}

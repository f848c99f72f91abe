//! One denied packet, and what can be done with it.

use super::*;
use crate::testing::{ACK, DENIED, DENYING, Node, OBSERVED, Octets, SYN, denying_but};
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

/// [`DENYING`] with other octets in the packet.
fn with_octets(fragmentation: u8, tcp_flags: u8) -> Node {
    denying_but(|node| {
        node.octets = Octets {
            fragmentation,
            tcp_flags,
        }
    })
}

#[test]
fn a_packet_that_cannot_be_redirected_is_rejected() {
    let datagram = Packet {
        protocol: 17,
        ..ACK
    };
    let tagged = Packet {
        network_at: 4,
        transport_at: 24,
        ..SYN
    };
    let no_endpoint = denying_but(|node| node.backend = false);
    let not_its_own = denying_but(|node| node.live = false);
    let no_route = denying_but(|node| node.route = false);
    for (name, packet, node, expected) in [
        ("a datagram", datagram, DENYING, Decision::Redirect),
        (
            "a first fragment",
            SYN,
            with_octets(0x20, 2),
            Decision::Reject,
        ),
        ("no live endpoint", SYN, no_endpoint, Decision::Reject),
        ("its IP is not its own", SYN, not_its_own, Decision::Reject),
        ("no route to it", SYN, no_route, Decision::Reject),
        ("an open TCP connection", ACK, DENYING, Decision::Reject),
        ("behind a VLAN tag", tagged, DENYING, Decision::Reject),
    ] {
        assert_eq!(decided(&packet, Action::Redirect, node), expected, "{name}");
    }
}

#[test]
fn a_packet_that_must_not_be_answered_is_dropped() {
    let fragment = Packet {
        transport: Transport::Fragment,
        ..SYN
    };
    let to_many = denying_but(|node| node.to_many = true);
    let no_room = denying_but(|node| node.room = false);
    let no_way = denying_but(|node| node.way = false);
    for (name, packet, node, expected) in [
        ("a RST", SYN, with_octets(0x40, 4), Decision::Drop),
        ("a broadcast frame", SYN, to_many, Decision::Drop),
        ("a later fragment", fragment, DENYING, Decision::Drop),
        ("beyond the limits", SYN, no_room, Decision::DropUnanswered),
        (
            "no way to the client",
            SYN,
            no_way,
            Decision::DropUnanswerable,
        ),
    ] {
        assert_eq!(decided(&packet, Action::Reject, node), expected, "{name}");
    }
    for (decision, expected) in [
        (Decision::DropUnanswered, Some(Outcome::AnswerSuppressed)),
        (Decision::DropUnanswerable, Some(Outcome::Unanswerable)),
        (Decision::Drop, None),
    ] {
        assert_eq!(decision.counted_beside(), expected);
    }
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

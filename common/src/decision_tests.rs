//! One denied packet, and what can be done with it.

use super::*;
use crate::{Addr, Backend, Effect, Transport, Uid};

const LIVE: Backend =
    Backend { addr: Addr::v4([10, 244, 1, 2]), uid: Uid { octets: [0xbb; 16] }, port: 9090, reserved: 0 };

/// An IPv4 packet's first 40 octets: IP flags at 6, TCP flags at 33.
struct Octets {
    fragmentation: u8,
    tcp_flags: u8,
}

impl Bytes for Octets {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        let mut octets = [0; 40];
        octets[6] = self.fragmentation;
        octets[33] = self.tcp_flags;
        let at = usize::try_from(offset).ok()?;
        octets.get(at..at + N)?.try_into().ok()
    }

    fn words<const N: usize>(&self, _: u32) -> Option<[u32; N]> {
        None
    }
}

/// Everything is possible; each row of a table takes one thing away.
#[allow(clippy::struct_excessive_bools, reason = "one for each thing that can be missing")]
struct Means {
    octets: Octets,
    own: Action,
    configured: Action,
    backend: Option<Backend>,
    live: bool,
    route: bool,
    to_many: bool,
    room: bool,
}

fn means(own: Action) -> Means {
    Means {
        octets: Octets { fragmentation: 0x40, tcp_flags: 0x02 },
        own,
        configured: Action::Unset,
        backend: Some(LIVE),
        live: true,
        route: true,
        to_many: false,
        room: true,
    }
}

impl ActionModel for Means {
    type Frame = Octets;
    type Backend = Backend;

    fn frame(&self) -> &Octets {
        &self.octets
    }
    fn own_action(&self) -> Action {
        self.own
    }
    fn configured_action(&self, reason: Reason) -> Action {
        assert_eq!(reason, Reason::Reused);
        self.configured
    }
    fn backend(&self, _: &Packet) -> Option<Backend> {
        self.backend
    }
    fn is_live(&self, backend: &Backend) -> bool {
        self.live && *backend == LIVE
    }
    fn has_route(&self, _: &Packet, backend: &Backend) -> bool {
        self.route && *backend == LIVE
    }
    fn is_to_many(&self) -> bool {
        self.to_many
    }
    fn has_room(&self) -> bool {
        self.room
    }
}

const SYN: Packet = Packet {
    src: Addr::v4([10, 244, 2, 2]),
    dst: Addr::v4([10, 244, 1, 10]),
    src_port: 40_000,
    dst_port: 8080,
    protocol: 6,
    transport: Transport::Opening,
    network_at: 0,
    transport_at: 20,
};

const DENIED: Verdict = Verdict::Deny { reason: Reason::Reused, enforce: true };

fn decided(packet: &Packet, change: impl FnOnce(&mut Means), own: Action) -> Decision {
    let mut means = means(own);
    change(&mut means);
    decide(packet, DENIED, &means)
}

#[test]
fn every_action_is_counted_as_its_own_outcome() {
    for action in Action::ALL.into_iter().filter(|action| *action != Action::Unset) {
        let (_, outcome) = DENIED.counted_as(decided(&SYN, |_| {}, action)).unwrap();
        assert_eq!(outcome.effect(), Effect::Stopped(action), "{action}");
    }
}

#[test]
fn only_an_enforced_denial_does_more_than_pass() {
    let observed = Verdict::Deny { reason: Reason::Reused, enforce: false };
    let passed = Verdict::Pass(Reason::Reused, Outcome::Off);
    for verdict in [Verdict::Clear, passed, observed] {
        assert_eq!(decide(&SYN, verdict, &means(Action::Redirect)), Decision::Pass);
    }
}

#[test]
fn the_denials_own_action_comes_before_that_of_config() {
    let table = [
        (Action::Unset, Action::Unset, Decision::Drop),
        (Action::Unset, Action::Drop, Decision::Drop),
        (Action::Unset, Action::Reject, Decision::Reject),
        (Action::Unset, Action::Redirect, Decision::Redirect),
        (Action::Unset, Action::Capture, Decision::Capture),
        (Action::Drop, Action::Reject, Decision::Drop),
        (Action::Reject, Action::Drop, Decision::Reject),
        (Action::Redirect, Action::Drop, Decision::Redirect),
        (Action::Capture, Action::Drop, Decision::Capture),
    ];
    for (own, configured, expected) in table {
        let decision = decided(&SYN, |means| means.configured = configured, own);
        assert_eq!(decision, expected, "{own:?} {configured:?}");
    }
}

#[test]
fn a_packet_that_cannot_be_redirected_is_rejected() {
    type Row = (&'static str, fn(&mut Means));
    let table: [Row; 4] = [
        ("first fragment", |means| means.octets.fragmentation = 0x20),
        ("no live endpoint", |means| means.backend = None),
        ("its IP is another pod's or no pod's", |means| means.live = false),
        ("no route to it", |means| means.route = false),
    ];
    for (name, change) in table {
        assert_eq!(decided(&SYN, change, Action::Redirect), Decision::Reject, "{name}");
    }
    let later = Packet { transport: Transport::Ports, ..SYN };
    assert_eq!(decided(&later, |_| (), Action::Redirect), Decision::Reject);
    let datagram = Packet { protocol: 17, ..later };
    assert_eq!(decided(&datagram, |_| (), Action::Redirect), Decision::Redirect);
    let tagged = Packet { network_at: 4, transport_at: 24, ..SYN };
    assert_eq!(decided(&tagged, |_| (), Action::Redirect), Decision::Reject);
}

#[test]
fn a_packet_that_must_not_be_answered_is_dropped() {
    type Row = (&'static str, fn(&mut Means), Decision);
    let table: [Row; 3] = [
        ("RST", |means| means.octets.tcp_flags = 0x04, Decision::Drop),
        ("broadcast frame", |means| means.to_many = true, Decision::Drop),
        ("beyond the limits", |means| means.room = false, Decision::DropUnanswered),
    ];
    for (name, change, expected) in table {
        assert_eq!(decided(&SYN, change, Action::Reject), expected, "{name}");
    }
    assert_eq!(Decision::DropUnanswered.counted_beside(), Some(Outcome::AnswerSuppressed));
    assert_eq!(Decision::Drop.counted_beside(), None);
    let fragment = Packet { transport: Transport::Fragment, ..SYN };
    assert_eq!(decided(&fragment, |_| (), Action::Reject), Decision::Drop);
}

#[test]
fn an_xdp_program_drops_and_rejects_and_leaves_the_rest_to_tc() {
    let table = [
        (Decision::Pass, true, Decision::Pass),
        (Decision::Drop, false, Decision::Drop),
        (Decision::DropUnanswered, false, Decision::DropUnanswered),
        (Decision::Reject, true, Decision::Reject),
        (Decision::Reject, false, Decision::Pass),
        (Decision::Redirect, true, Decision::Pass),
        (Decision::Capture, true, Decision::Pass),
    ];
    for (decision, can_reject, expected) in table {
        assert_eq!(decision.before_tc(|| can_reject), expected, "{decision:?}");
    }
}

#[test]
fn a_denied_packet_is_counted_under_its_action() {
    let as_counted = |verdict: Verdict, decision| verdict.counted_as(decision).map(|(_, outcome)| outcome);
    let table = [
        (Decision::Drop, Outcome::Dropped),
        (Decision::DropUnanswered, Outcome::Dropped),
        (Decision::Reject, Outcome::Rejected),
        (Decision::Redirect, Outcome::Redirected),
        (Decision::Capture, Outcome::Captured),
    ];
    for (decision, expected) in table {
        assert_eq!(as_counted(DENIED, decision), Some(expected), "{decision:?}");
    }
    let observed = Verdict::Deny { reason: Reason::Reused, enforce: false };
    assert_eq!(as_counted(observed, Decision::Pass), Some(Outcome::Observed));
    assert_eq!(as_counted(Verdict::Clear, Decision::Pass), None);
}

//! One packet to one suspect at the egress hook: with a denial, in a redirected flow, or without a Service.

use super::*;
use crate::{
    Action, Addr, Bytes, DenialKey, Intent, Mode, Outcome, Proof, Reason, ServiceNumber, Suspect, Transport,
    UidState,
};

const X: Addr = Addr::v4([10, 244, 1, 10]);
const SHOP: DenialKey = DenialKey::new(X, ServiceNumber { number: 1 }, 8080, 6);

/// A whole packet without flags.
struct Zeros;

impl Bytes for Zeros {
    fn read<const N: usize>(&self, _: u32) -> Option<[u8; N]> {
        Some([0; N])
    }
    fn words<const N: usize>(&self, _: u32) -> Option<[u32; N]> {
        None
    }
}

#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one for each condition of the choice")]
struct Node {
    intent: Intent,
    denied: bool,
    fresh: bool,
    redirected: bool,
    copy: bool,
}

const DENYING: Node =
    Node { intent: Intent::Endpoint(SHOP), denied: true, fresh: true, redirected: false, copy: false };

impl Model for Node {
    fn suspect(&self, _: &Addr) -> Option<u32> {
        Some(Suspect::DENIED)
    }
    fn intent(&self, _: &Packet) -> Intent {
        self.intent
    }
    fn denial(&self, _: &DenialKey) -> Option<Proof> {
        self.denied.then_some(Proof {
            reason: Reason::DeadBackend,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            held: false,
        })
    }
    fn mode(&self) -> Mode {
        Mode::Enforce
    }
    fn mode_of(&self, _: Reason) -> Mode {
        Mode::Enforce
    }
    fn lease_is_valid(&self) -> bool {
        self.fresh
    }
}

impl ActionModel for Node {
    type Frame = Zeros;
    type Backend = ();

    fn frame(&self) -> &Zeros {
        &Zeros
    }
    fn own_action(&self) -> Action {
        Action::Reject
    }
    fn configured_action(&self, _: Reason) -> Action {
        Action::Unset
    }
    fn backend(&self, _: &Packet) -> Option<()> {
        None
    }
    fn is_live(&self, (): &()) -> bool {
        false
    }
    fn has_route(&self, _: &Packet, (): &()) -> bool {
        false
    }
    fn is_to_many(&self) -> bool {
        false
    }
    fn has_room(&self) -> bool {
        true
    }
}

impl EgressModel for Node {
    fn is_redirected(&self, _: &Packet) -> bool {
        self.redirected
    }
    fn is_copy(&self) -> bool {
        self.copy
    }
}

const PACKET: Packet = Packet {
    src: Addr::v4([10, 244, 2, 2]),
    dst: X,
    src_port: 40_000,
    dst_port: 8080,
    protocol: 6,
    transport: Transport::Ports,
    network_at: 0,
    transport_at: 20,
};

const DENIED: Verdict = Verdict::Deny { reason: Reason::DeadBackend, enforce: true };

#[test]
fn a_packet_of_a_redirected_flow_follows_it_before_any_verdict() {
    let redirected = Node { redirected: true, ..DENYING };
    let follows = (Verdict::Clear, Decision::Follow);
    let expired = (Verdict::Pass(Reason::DeadBackend, Outcome::LeaseExpired), Decision::Pass);
    let table = [
        ("a redirected flow", redirected, follows),
        ("its denial is gone", Node { denied: false, ..redirected }, follows),
        ("another flow", DENYING, (DENIED, Decision::Reject)),
        ("the lease has ended", Node { fresh: false, ..redirected }, expired),
    ];
    for (name, node, expected) in table {
        assert_eq!(decide_egress(&PACKET, &node), expected, "{name}");
    }
    let fragment = Packet { transport: Transport::Fragment, network_at: 4, ..PACKET };
    assert_eq!(decide_egress(&fragment, &redirected).0, DENIED, "fragments are not redirected");
}

#[test]
fn a_copy_of_a_packet_has_its_verdict_but_is_not_counted_or_answered_again() {
    let copy = Node { copy: true, ..DENYING };
    let redirected = Node { redirected: true, ..copy };
    let passes = Node { intent: Intent::None, ..copy };
    for (node, decision) in [(copy, Decision::Drop), (redirected, Decision::Drop), (passes, Decision::Pass)] {
        assert_eq!(decide_egress(&PACKET, &node), (Verdict::Clear, decision));
    }
}

#[test]
fn only_the_same_packet_of_a_connection_at_another_port_at_once_is_a_copy() {
    let first = Judged { reference: 0x1000, at_ns: 5_000_000, length: 74, ifindex: 4 };
    let second = Judged { ifindex: 5, ..first };
    assert!(second.is_copy_of(&first));
    let others = [
        ("the next packet at the same port", first),
        ("another connection", Judged { reference: 0x2000, ..second }),
        ("another length", Judged { length: 75, ..second }),
        ("later", Judged { at_ns: 6_000_001, ..second }),
    ];
    for (name, other) in others {
        assert!(!other.is_copy_of(&first), "{name}");
    }
    assert!(!second.is_copy_of(&Judged::default()));
    // 7: IP_CT_UNTRACKED without an entry, as of all packets that are not tracked.
    for reference in [0, 7] {
        let [one, other] = [first, second].map(|judged| Judged { reference, ..judged });
        assert!(!other.is_copy_of(&one), "packets without a connection: {reference}");
    }
}

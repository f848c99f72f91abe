//! One packet to one suspect at the egress hook: with a denial, in a redirected flow, or without a Service.

use super::*;
use crate::{Action, Addr, Bytes, DenialKey, Intent, Mode, Proof, Suspect, Transport, UidState};

const X: Addr = Addr::v4([10, 244, 1, 10]);
const SHOP: Slot = Slot { number: 0x8001 };

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
#[allow(
    clippy::struct_excessive_bools,
    reason = "one for each condition of the choice"
)]
struct Node {
    slot: Slot,
    denied: bool,
    fresh: bool,
    may_follow: bool,
    redirected: bool,
    carrier: bool,
    may_be_wiped: bool,
    aimed: Option<Reason>,
}

const DENYING: Node = Node {
    slot: SHOP,
    denied: true,
    fresh: true,
    may_follow: false,
    redirected: false,
    carrier: true,
    may_be_wiped: false,
    aimed: None,
};

impl Model for Node {
    fn suspect(&self, _: &Addr) -> Option<u32> {
        Some(Suspect::DENIED)
    }
    fn intent(&self, _: &Packet) -> Intent {
        Intent::carried(self.slot)
    }
    fn denial(&self, _: &DenialKey) -> Option<Proof> {
        self.denied.then_some(Proof {
            reason: Reason::DeadBackend,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            held: false,
            slot_since_ns: 0,
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
    fn can_capture(&self) -> bool {
        true
    }
    fn service(&self) -> u16 {
        self.slot.number
    }
    fn can_carry(&self, _: u16) -> bool {
        self.carrier
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
    fn may_follow(&self) -> bool {
        self.may_follow
    }
    fn is_redirected(&self, _: &Packet, slot: Slot) -> bool {
        self.redirected && slot == SHOP
    }
    fn may_be_wiped(&self) -> bool {
        self.may_be_wiped
    }
    fn aimed_reason(&self, _: &Packet) -> Option<Reason> {
        self.aimed
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

const DENIED: Verdict = Verdict::Deny {
    reason: Reason::DeadBackend,
    enforce: true,
};

#[test]
fn a_packet_of_a_redirected_flow_follows_it_before_any_verdict() {
    let redirected = Node {
        may_follow: true,
        redirected: true,
        ..DENYING
    };
    let follows = (Verdict::Clear, Decision::Follow);
    let rejected = (DENIED, Decision::Reject);
    let dropped = (DENIED, Decision::DropUnanswered);
    let expired = (
        Verdict::Pass(Reason::DeadBackend, Outcome::LeaseExpired),
        Decision::Pass,
    );
    let passed = (Verdict::Pass(Reason::Nothing, Outcome::NoIntent), Decision::Pass);
    let table = [
        ("a redirected flow", redirected, follows),
        (
            "its denial is gone",
            Node {
                denied: false,
                ..redirected
            },
            follows,
        ),
        (
            "no flow is redirected, or a hook has judged the packet",
            Node {
                may_follow: false,
                ..redirected
            },
            rejected,
        ),
        (
            "another flow",
            Node {
                redirected: false,
                ..redirected
            },
            rejected,
        ),
        (
            "no carrier",
            Node {
                carrier: false,
                ..redirected
            },
            dropped,
        ),
        (
            "the lease has ended",
            Node {
                fresh: false,
                ..redirected
            },
            expired,
        ),
        (
            "no Service",
            Node {
                slot: Slot::NONE,
                ..redirected
            },
            passed,
        ),
    ];
    for (name, node, expected) in table {
        assert_eq!(decide_egress(&PACKET, &node), expected, "{name}");
    }
    let fragment = Packet {
        transport: Transport::Fragment,
        network_at: 4,
        ..PACKET
    };
    let (verdict, _) = decide_egress(&fragment, &redirected);
    assert_eq!(verdict, Verdict::Pass(Reason::Nothing, Outcome::Fragment));
}

#[test]
fn a_packet_without_a_service_passes_and_its_counter_names_the_cause() {
    let lost = Node {
        slot: Slot::NONE,
        may_be_wiped: true,
        aimed: Some(Reason::Reused),
        ..DENYING
    };
    let lapsed = Node { fresh: false, ..lost };
    let none = Verdict::Pass(Reason::Nothing, Outcome::NoIntent);
    let wiped = Verdict::Pass(Reason::Reused, Outcome::IntentLost);
    let expired = Verdict::Pass(Reason::Reused, Outcome::LeaseExpired);
    let table = [
        ("a foreign program wiped the number", lost, wiped),
        (
            "no foreign program can",
            Node {
                may_be_wiped: false,
                ..lost
            },
            none,
        ),
        (
            "the sender aimed at no denied Service",
            Node { aimed: None, ..lost },
            none,
        ),
        ("the lease has ended", lapsed, expired),
        (
            "also where no program wipes",
            Node {
                may_be_wiped: false,
                ..lapsed
            },
            expired,
        ),
        (
            "ended, and aimed elsewhere",
            Node {
                aimed: None,
                ..lapsed
            },
            none,
        ),
    ];
    for (name, node, expected) in table {
        assert_eq!(
            decide_egress(&PACKET, &node),
            (expected, Decision::Pass),
            "{name}"
        );
    }
    let other = Packet {
        transport: Transport::Other,
        ..PACKET
    };
    assert_eq!(decide_egress(&other, &lost), (none, Decision::Pass));
}

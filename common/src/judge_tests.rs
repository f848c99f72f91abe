//! One packet each to one suspect with one denial.

use super::*;

const X: Addr = Addr::v4([10, 244, 1, 10]);
const SHOP: Slot = Slot { number: 0x8001 };

/// One suspect with one denial; each test turns one screw.
#[derive(Clone, Copy)]
struct World {
    flags: u32,
    intent: Intent,
    proof: Proof,
    mode: Mode,
    of_reason: Mode,
    fresh: bool,
}

const DENYING: World = World {
    flags: Suspect::DENIED,
    intent: Intent::carried(SHOP),
    proof: Proof {
        reason: Reason::Reused,
        uid_state: UidState::Dead,
        mode: Mode::Enforce,
        held: false,
        slot_since_ns: 0,
    },
    mode: Mode::Enforce,
    of_reason: Mode::Enforce,
    fresh: true,
};

impl Model for World {
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        (*addr == X).then_some(self.flags)
    }
    fn intent(&self, _: &Packet) -> Intent {
        self.intent
    }
    fn denial(&self, target: &DenialKey) -> Option<Proof> {
        (target.addr == X && target.slot == SHOP && target.port == 8080 && target.protocol == 6)
            .then_some(self.proof)
    }
    fn mode(&self) -> Mode {
        self.mode
    }
    fn mode_of(&self, _: Reason) -> Mode {
        self.of_reason
    }
    fn lease_is_valid(&self) -> bool {
        self.fresh
    }
}

fn packet(dst: Addr, port: u16, opens: bool) -> Packet {
    let transport = if opens {
        Transport::Opening
    } else {
        Transport::Ports
    };
    let src = Addr::v4([10, 244, 1, 2]);
    Packet {
        src,
        dst,
        src_port: 40_000,
        dst_port: port,
        protocol: 6,
        transport,
        network_at: 0,
        transport_at: 20,
    }
}

const fn denied(reason: Reason, enforce: bool) -> Verdict {
    Verdict::Deny { reason, enforce }
}

fn verdict(world: World) -> Verdict {
    judge(&packet(X, 8080, true), &world)
}

#[test]
fn a_flow_of_the_service_to_its_dead_pod_is_denied() {
    assert_eq!(verdict(DENYING), denied(Reason::Reused, true));
    let established = judge(&packet(X, 8080, false), &DENYING);
    assert_eq!(established, denied(Reason::Reused, true));
}

#[test]
fn observe_and_off_by_operator_or_annotation_stop_nothing() {
    let bounded = |bound, mode| {
        let proof = Proof {
            mode: bound,
            ..DENYING.proof
        };
        verdict(World {
            proof,
            mode,
            ..DENYING
        })
    };
    let (observed, off) = (
        denied(Reason::Reused, false),
        Verdict::Pass(Reason::Reused, Outcome::Off),
    );
    assert_eq!(bounded(Mode::Observe, Mode::Enforce), observed);
    assert_eq!(bounded(Mode::Enforce, Mode::Observe), observed);
    assert_eq!(bounded(Mode::Off, Mode::Enforce), off);
    assert_eq!(bounded(Mode::Enforce, Mode::Off), off);
    let by_reason = |of_reason| verdict(World { of_reason, ..DENYING });
    assert_eq!(by_reason(Mode::Observe), observed);
    assert_eq!(by_reason(Mode::Off), off);
}

#[test]
fn direct_traffic_to_the_new_owner_passes() {
    let direct = World {
        intent: Intent::NONE,
        ..DENYING
    };
    assert_eq!(verdict(direct), Verdict::Pass(Reason::Nothing, Outcome::NoIntent));
}

#[test]
fn another_service_to_the_same_ip_passes() {
    let other = World {
        intent: Intent::carried(Slot { number: 0x8002 }),
        ..DENYING
    };
    assert_eq!(verdict(other), Verdict::Pass(Reason::Nothing, Outcome::NotDenied));
}

#[test]
fn another_port_of_the_same_ip_passes() {
    let other = judge(&packet(X, 9090, true), &DENYING);
    assert_eq!(other, Verdict::Pass(Reason::Nothing, Outcome::NotDenied));
}

#[test]
fn an_ip_that_is_no_suspect_is_not_even_counted() {
    assert_eq!(
        judge(&packet(Addr::v4([10, 244, 1, 11]), 8080, true), &DENYING),
        Verdict::Clear
    );
}

#[test]
fn a_retired_pod_keeps_its_flows_and_gets_no_new_one() {
    let proof = Proof {
        reason: Reason::RetiredBackend,
        uid_state: UidState::Retired,
        ..DENYING.proof
    };
    let retired = World { proof, ..DENYING };
    assert_eq!(verdict(retired), denied(Reason::RetiredBackend, true));
    let established = judge(&packet(X, 8080, false), &retired);
    assert_eq!(
        established,
        Verdict::Pass(Reason::RetiredBackend, Outcome::Established)
    );
}

#[test]
fn past_the_lease_everything_passes() {
    let stale = World {
        fresh: false,
        ..DENYING
    };
    assert_eq!(
        verdict(stale),
        Verdict::Pass(Reason::Reused, Outcome::LeaseExpired)
    );
}

#[test]
fn a_proof_about_a_live_pod_denies_nothing() {
    let proof = Proof {
        uid_state: UidState::Live,
        ..DENYING.proof
    };
    assert_eq!(
        verdict(World { proof, ..DENYING }),
        Verdict::Pass(Reason::Reused, Outcome::Established)
    );
}

#[test]
fn a_terminating_pod_passes_and_is_counted_as_draining() {
    let draining = World {
        flags: Suspect::DRAINING,
        intent: Intent::NONE,
        ..DENYING
    };
    assert_eq!(
        verdict(draining),
        Verdict::Pass(Reason::Nothing, Outcome::Draining)
    );
}

#[test]
fn a_later_fragment_passes() {
    let fragment = Packet {
        transport: Transport::Fragment,
        ..packet(X, 0, false)
    };
    assert_eq!(
        judge(&fragment, &DENYING),
        Verdict::Pass(Reason::Nothing, Outcome::Fragment)
    );
}

#[test]
fn a_pending_denial_is_reported_and_stops_nothing() {
    let proof = Proof {
        held: true,
        ..DENYING.proof
    };
    let held = World { proof, ..DENYING };
    let observed = Verdict::Deny {
        reason: Reason::Reused,
        enforce: false,
    };
    assert_eq!(verdict(held), observed);
    assert_eq!(judge(&packet(X, 8080, false), &held), observed);
}

#[test]
fn a_slot_that_was_reused_after_a_socket_noted_it_gives_no_intent() {
    let noted = |noted_ns| {
        let proof = Proof {
            slot_since_ns: 5,
            ..DENYING.proof
        };
        let intent = Intent { slot: SHOP, noted_ns };
        let world = World {
            intent,
            proof,
            ..DENYING
        };
        judge(&packet(X, 8080, true), &world)
    };
    assert_eq!(noted(4), Verdict::Pass(Reason::Nothing, Outcome::NotDenied));
    assert_eq!(noted(5), denied(Reason::Reused, true));
    assert_eq!(
        noted(Intent::carried(SHOP).noted_ns),
        denied(Reason::Reused, true)
    );
}

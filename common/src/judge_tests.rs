//! One packet each to one suspect with one denial.

use super::*;
use crate::ServiceNumber;

const X: Addr = Addr::v4([10, 244, 1, 10]);
const SHOP: DenialKey = DenialKey::new(X, ServiceNumber { number: 1 }, 8080, 6);

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
    intent: Intent::Endpoint(SHOP),
    proof: Proof { reason: Reason::Reused, uid_state: UidState::Dead, mode: Mode::Enforce, held: false },
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
    fn denial(&self, key: &DenialKey) -> Option<Proof> {
        (*key == SHOP).then_some(self.proof)
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
    let transport = if opens { Transport::Opening } else { Transport::Ports };
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
        let proof = Proof { mode: bound, ..DENYING.proof };
        verdict(World { proof, mode, ..DENYING })
    };
    let (observed, off) = (denied(Reason::Reused, false), Verdict::Pass(Reason::Reused, Outcome::Off));
    assert_eq!(bounded(Mode::Observe, Mode::Enforce), observed);
    assert_eq!(bounded(Mode::Enforce, Mode::Observe), observed);
    assert_eq!(bounded(Mode::Off, Mode::Enforce), off);
    assert_eq!(bounded(Mode::Enforce, Mode::Off), off);
    let by_reason = |of_reason| verdict(World { of_reason, ..DENYING });
    assert_eq!(by_reason(Mode::Observe), observed);
    assert_eq!(by_reason(Mode::Off), off);
}

#[test]
fn a_packet_that_means_no_denied_endpoint_passes_and_its_counter_names_the_cause() {
    let other =
        |service, port| Intent::Endpoint(DenialKey::new(X, ServiceNumber { number: service }, port, 6));
    let table = [
        ("direct traffic to the new owner", Intent::None, Outcome::NoIntent),
        ("untracked", Intent::NoConnection, Outcome::NoConnection),
        ("a contradiction", Intent::Unreadable, Outcome::UnreadableConnection),
        ("another Service", other(2, 8080), Outcome::NotDenied),
        ("another port", other(1, 9090), Outcome::NotDenied),
    ];
    for (name, intent, outcome) in table {
        let passed = Verdict::Pass(Reason::Nothing, outcome);
        assert_eq!(verdict(World { intent, ..DENYING }), passed, "{name}");
    }
}

#[test]
fn an_ip_that_is_no_suspect_is_not_even_counted() {
    assert_eq!(judge(&packet(Addr::v4([10, 244, 1, 11]), 8080, true), &DENYING), Verdict::Clear);
}

#[test]
fn a_retired_pod_keeps_its_flows_and_gets_no_new_one() {
    let proof = Proof { reason: Reason::RetiredBackend, uid_state: UidState::Retired, ..DENYING.proof };
    let retired = World { proof, ..DENYING };
    assert_eq!(verdict(retired), denied(Reason::RetiredBackend, true));
    let established = judge(&packet(X, 8080, false), &retired);
    assert_eq!(established, Verdict::Pass(Reason::RetiredBackend, Outcome::Established));
}

#[test]
fn past_the_lease_everything_passes() {
    let stale = World { fresh: false, ..DENYING };
    assert_eq!(verdict(stale), Verdict::Pass(Reason::Reused, Outcome::LeaseExpired));
}

#[test]
fn a_proof_about_a_live_pod_denies_nothing() {
    let proof = Proof { uid_state: UidState::Live, ..DENYING.proof };
    assert_eq!(verdict(World { proof, ..DENYING }), Verdict::Pass(Reason::Reused, Outcome::Established));
}

#[test]
fn a_terminating_pod_passes_and_is_counted_as_draining() {
    let draining = World { flags: Suspect::DRAINING, intent: Intent::None, ..DENYING };
    assert_eq!(verdict(draining), Verdict::Pass(Reason::Nothing, Outcome::Draining));
}

#[test]
fn a_later_fragment_and_an_icmp_error_are_denied_as_their_connection_is() {
    for transport in [Transport::Fragment, Transport::Other] {
        let packet = Packet { transport, ..packet(X, 0, false) };
        assert_eq!(judge(&packet, &DENYING), denied(Reason::Reused, true), "{transport:?}");
    }
}

#[test]
fn a_pending_denial_is_reported_and_stops_nothing() {
    let proof = Proof { held: true, ..DENYING.proof };
    let held = World { proof, ..DENYING };
    let observed = Verdict::Deny { reason: Reason::Reused, enforce: false };
    assert_eq!(verdict(held), observed);
    assert_eq!(judge(&packet(X, 8080, false), &held), observed);
}

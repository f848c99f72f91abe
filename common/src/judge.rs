//! The decision about a packet that leaves towards a pod, after DNAT.

use crate::{Addr, Mode, Outcome, Packet, Reason, Slot, Suspect, Target, Transport, UidState, Verdict};

/// What the decision looks up. The kernel answers from maps, tests from vectors; every answer is asked
/// for only when it matters, so that a packet to nobody suspicious costs one lookup.
pub trait Model {
    /// Flags of [`Suspect`], `None` if the address is no suspect.
    fn suspect(&self, addr: &Addr) -> Option<u32>;
    /// The Service that the packet was aimed at.
    fn intent(&self, packet: &Packet) -> Slot;
    /// The denial of an endpoint.
    fn denial(&self, target: &Target) -> Option<Proof>;
    /// The mode in force for a reason.
    fn mode(&self, reason: Reason) -> Mode;
    /// Whether the agent has vouched for its view recently enough.
    fn lease_is_valid(&self) -> bool;
}

/// What a denial rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// Which proof it is.
    pub reason: Reason,
    /// Whether the pod that was meant is dead, or only retired.
    pub uid_state: UidState,
    /// Most that may be done about it.
    pub mode: Mode,
}

/// Decides about one packet. Deny only on a proof that is present and fresh; a miss anywhere is a pass.
#[inline(always)]
#[allow(
    clippy::inline_always,
    reason = "one function to the verifier: no stack frame of its own"
)]
pub fn judge<M: Model>(packet: &Packet, model: &M) -> Verdict {
    let Some(flags) = model.suspect(&packet.dst) else {
        return Verdict::Clear;
    };
    let otherwise = |outcome| {
        let draining = flags & Suspect::DRAINING != 0;
        Verdict::Pass(
            Reason::Nothing,
            if draining { Outcome::Draining } else { outcome },
        )
    };
    let slot = model.intent(packet);
    if !slot.is_some() {
        return otherwise(Outcome::NoIntent);
    }
    if !packet.transport.has_ports() {
        let fragment = packet.transport == Transport::Fragment;
        return otherwise(if fragment {
            Outcome::Fragment
        } else {
            Outcome::NotDenied
        });
    }
    let (addr, port, protocol) = (packet.dst, packet.dst_port, packet.protocol);
    let target = Target {
        addr,
        slot,
        port,
        protocol,
        reserved: [0; 3],
    };
    let Some(proof) = model.denial(&target) else {
        return otherwise(Outcome::NotDenied);
    };
    let reason = proof.reason;
    match proof.uid_state {
        UidState::Dead => {}
        UidState::Retired if packet.transport == Transport::Opening => {}
        UidState::Retired | UidState::Live => return Verdict::Pass(reason, Outcome::Established),
    }
    let mode = model.mode(reason).lower(proof.mode);
    if mode == Mode::Off {
        return Verdict::Pass(reason, Outcome::Off);
    }
    if !model.lease_is_valid() {
        return Verdict::Pass(reason, Outcome::LeaseExpired);
    }
    Verdict::Deny {
        reason,
        enforce: mode == Mode::Enforce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Addr = Addr::v4([10, 244, 1, 10]);
    const SHOP: Slot = Slot { number: 0x8001 };

    /// One suspect with one denial; each test turns one screw.
    #[derive(Clone, Copy)]
    struct World {
        flags: u32,
        intent: Slot,
        proof: Proof,
        mode: Mode,
        fresh: bool,
    }

    const DENYING: World = World {
        flags: Suspect::DENIED,
        intent: SHOP,
        proof: Proof {
            reason: Reason::Reused,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
        },
        mode: Mode::Enforce,
        fresh: true,
    };

    impl Model for World {
        fn suspect(&self, addr: &Addr) -> Option<u32> {
            (*addr == X).then_some(self.flags)
        }
        fn intent(&self, _: &Packet) -> Slot {
            self.intent
        }
        fn denial(&self, target: &Target) -> Option<Proof> {
            (target.addr == X && target.slot == SHOP && target.port == 8080 && target.protocol == 6)
                .then_some(self.proof)
        }
        fn mode(&self, _: Reason) -> Mode {
            self.mode
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
    fn in_observe_nothing_is_stopped_and_off_passes_whether_the_operator_or_an_annotation_says_so() {
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
    }

    #[test]
    fn direct_traffic_to_the_new_owner_passes() {
        let direct = World {
            intent: Slot::NONE,
            ..DENYING
        };
        assert_eq!(verdict(direct), Verdict::Pass(Reason::Nothing, Outcome::NoIntent));
    }

    #[test]
    fn another_service_to_the_same_ip_passes() {
        let other = World {
            intent: Slot { number: 0x8002 },
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
            intent: Slot::NONE,
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
}

//! The verdict on a packet that leaves towards a pod, after DNAT.

use crate::{Addr, DenialKey, Mode, Outcome, Packet, Reason, Slot, Suspect, Transport, UidState, Verdict};

/// What the verdict needs: from maps in the kernel, from constants in tests. Each lookup happens only where its result
/// matters, so a packet to an IP that is no suspect costs one lookup.
pub trait Model {
    /// Flags of [`Suspect`], `None` if the address is no suspect.
    fn suspect(&self, addr: &Addr) -> Option<u32>;
    /// The Service that the packet was aimed at.
    fn intent(&self, packet: &Packet) -> Intent;
    /// The denial of an endpoint.
    fn denial(&self, target: &DenialKey) -> Option<Proof>;
    /// The operator's mode, an upper bound for every reason.
    fn mode(&self) -> Mode;
    /// The operator's mode for a reason.
    fn mode_of(&self, reason: Reason) -> Mode;
    /// Whether the agent has renewed the lease in time.
    fn lease_is_valid(&self) -> bool;
}

/// The Service that a packet was aimed at. Slots are reused, so a stored slot counts only with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intent {
    /// The Service's slot at that time.
    pub slot: Slot,
    /// When the socket's entry stored it, `CLOCK_BOOTTIME`.
    pub noted_ns: u64,
}

impl Intent {
    /// No known Service.
    pub const NONE: Self = Self::carried(Slot::NONE);

    /// The slot that the packet itself carries: no packet lives as long as an unused slot rests.
    #[inline]
    #[must_use]
    pub const fn carried(slot: Slot) -> Self {
        Self {
            slot,
            noted_ns: u64::MAX,
        }
    }
}

/// The proof that a denial rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The reason.
    pub reason: Reason,
    /// Whether the pod that was meant is dead, or only retired.
    pub uid_state: UidState,
    /// Upper bound from annotations.
    pub mode: Mode,
    /// Whether it waits for confirmation by a second list: then it is only reported.
    pub held: bool,
    /// Since when the slot belongs to the denied Service, `CLOCK_BOOTTIME`.
    pub slot_since_ns: u64,
}

/// Judges one packet. Denies only on a proof that is present and fresh; a miss anywhere is a pass.
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
    let Intent { slot, noted_ns } = model.intent(packet);
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
    let target = DenialKey::of(packet, slot);
    let means_this_service = |proof: &Proof| noted_ns >= proof.slot_since_ns;
    let Some(proof) = model.denial(&target).filter(means_this_service) else {
        return otherwise(Outcome::NotDenied);
    };
    let reason = proof.reason;
    match proof.uid_state {
        UidState::Dead => {}
        UidState::Retired if packet.transport == Transport::Opening => {}
        UidState::Retired | UidState::Live => return Verdict::Pass(reason, Outcome::Established),
    }
    let mode = model.mode().lower(model.mode_of(reason)).lower(proof.mode);
    if mode == Mode::Off {
        return Verdict::Pass(reason, Outcome::Off);
    }
    if !model.lease_is_valid() {
        return Verdict::Pass(reason, Outcome::LeaseExpired);
    }
    Verdict::Deny {
        reason,
        enforce: mode == Mode::Enforce && !proof.held,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

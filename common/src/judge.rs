//! The verdict on a packet that leaves towards a pod, after DNAT.

use crate::{
    Addr, DenialKey, Mode, Outcome, Packet, Reason, Suspect, Transport, UidState, Verdict,
};

/// What the verdict needs: from maps in the kernel, from constants in tests. Each lookup happens
/// only where its result matters, so a packet to an IP that is no suspect costs one lookup.
pub trait Model {
    /// Flags of [`Suspect`], `None` if the address is no suspect.
    fn suspect(&self, addr: &Addr) -> Option<u32>;
    /// The Service that the packet was aimed at.
    fn intent(&self, packet: &Packet) -> Intent;
    /// The denial of an endpoint.
    fn denial(&self, key: &DenialKey) -> Option<Proof>;
    /// The operator's mode, an upper bound for every reason.
    fn mode(&self) -> Mode;
    /// The operator's mode for a reason.
    fn mode_of(&self, reason: Reason) -> Mode;
    /// Whether the agent has renewed the lease in time.
    fn lease_is_valid(&self) -> bool;
}

/// The Service that a packet was aimed at, by what the translators recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// No translator has recorded the packet's connection.
    NoConnection,
    /// The record of the packet's connection contradicts the packet.
    Unreadable,
    /// No Service with a denial.
    None,
    /// An endpoint of a Service with a denial.
    Endpoint(DenialKey),
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
    /// Whether the breaker stops it until a second list agrees: then it is only reported.
    pub stopped: bool,
}

/// Judges one packet. Denies only on a proof that is present and fresh; a miss anywhere is a pass.
#[inline(always)]
pub fn judge_packet<M: Model>(packet: &Packet, model: &M) -> Verdict {
    let Some(flags) = model.suspect(&packet.dst) else {
        return Verdict::Clear;
    };
    if let Some(verdict) = without_denial(flags) {
        return verdict;
    }
    let key = match model.intent(packet) {
        Intent::NoConnection => return pass_or_draining(flags, Outcome::NoConnection),
        Intent::Unreadable => return pass_or_draining(flags, Outcome::UnreadableConnection),
        Intent::None => return pass_or_draining(flags, Outcome::NoIntent),
        Intent::Endpoint(key) => key,
    };
    let Some(proof) = model.denial(&key) else {
        return pass_or_draining(flags, Outcome::NotDenied);
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
        enforce: mode == Mode::Enforce && !proof.stopped,
    }
}

/// Passes a packet without a denial, counted as this outcome, unless a pod that terminates holds the
/// IP.
#[inline(always)]
const fn pass_or_draining(flags: u32, outcome: Outcome) -> Verdict {
    let outcome = if flags & Suspect::DRAINING != 0 {
        Outcome::Draining
    } else {
        outcome
    };
    Verdict::Pass(Reason::Nothing, outcome)
}

/// The verdict on a packet to a suspect of which no Service has a denial: a pod that terminates
/// holds the IP. `None`: one has. No record of the packet matters then, so none has to be read.
/// `flags`: of [`Suspect`].
#[inline(always)]
pub const fn without_denial(flags: u32) -> Option<Verdict> {
    if flags & Suspect::DENIED != 0 {
        return None;
    }
    Some(pass_or_draining(flags, Outcome::NotDenied))
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

//! What becomes of a packet at the egress hook, after DNAT.

use crate::{
    ActionModel, Decision, Model, Outcome, Packet, Reason, Slot, Verdict, decide, is_redirectable, judge,
};

/// What the choice looks up at the egress hook.
pub trait EgressModel: Model + ActionModel {
    /// Whether the packet may belong to a redirected flow: there are such flows, and no egress hook has judged the packet.
    fn may_follow(&self) -> bool;
    /// Whether FLOWS or OPENING holds the packet's flow, and OWNERS still shows its live endpoint.
    fn is_redirected(&self, packet: &Packet, slot: Slot) -> bool;
    /// Whether a foreign program may wipe the number that a packet carries ([`crate::View::wipers`]).
    fn may_be_wiped(&self) -> bool;
    /// The reason of the packet's denial for the Service that its sender aimed at a moment ago (AIMED).
    fn aimed_reason(&self, packet: &Packet) -> Option<Reason>;
}

/// Judges a packet and chooses what becomes of it. The packets of a redirected flow follow it without a verdict.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as judge")]
pub fn decide_egress<M: EgressModel>(packet: &Packet, model: &M) -> (Verdict, Decision) {
    if model.may_follow() && follows(packet, model) {
        return (Verdict::Clear, Decision::Follow);
    }
    let mut verdict = judge(packet, model);
    if verdict == Verdict::Pass(Reason::Nothing, Outcome::NoIntent) {
        verdict = lost_intent(packet, model).unwrap_or(verdict);
    }
    (verdict, decide(packet, verdict, model))
}

/// Whether the packet belongs to a redirected flow. Without a valid lease it goes where conntrack sends it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as judge")]
fn follows<M: EgressModel>(packet: &Packet, model: &M) -> bool {
    let slot = model.intent(packet).slot;
    slot.is_some()
        && model.can_carry(slot.number)
        && model.lease_is_valid()
        && is_redirectable(model.frame(), packet)
        && model.is_redirected(packet, slot)
}

/// Why a packet to a suspect carries no Service although its sender aimed at a denied one: the lease has ended, or a foreign
/// program has wiped the number. The packet passes, as a source port may have several destinations.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as judge")]
fn lost_intent<M: EgressModel>(packet: &Packet, model: &M) -> Option<Verdict> {
    let lapsed = !model.lease_is_valid();
    if !packet.transport.has_ports() || !model.may_be_wiped() && !lapsed {
        return None;
    }
    let reason = model.aimed_reason(packet)?;
    let outcome = if lapsed {
        Outcome::LeaseExpired
    } else {
        Outcome::IntentLost
    };
    Some(Verdict::Pass(reason, outcome))
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;

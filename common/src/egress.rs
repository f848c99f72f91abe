//! What becomes of a packet at the egress hook, after DNAT.

use crate::{
    ActionModel, Decision, Model, Packet, Reference, Verdict, decide, is_redirectable, judge_packet,
};

/// What the choice looks up at the egress hook.
pub trait EgressModel: Model + ActionModel {
    /// Whether FLOWS or OPENING holds the packet's flow, and OWNERS still shows its live endpoint.
    fn is_redirected(&self, packet: &Packet) -> bool;
    /// Whether this packet was judged at another interface just before: a bridge floods a frame to
    /// all its ports, and a device may hand a packet on to another one.
    fn is_copy(&self) -> bool;
}

/// Element of LAST: the packet of a connection that was judged last.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Judged {
    /// [`crate::Reference`]: packets with the same one have the same verdict.
    pub reference: u64,
    /// `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// Octets.
    pub length: u32,
    /// The interface.
    pub ifindex: u32,
    /// [`Packet::ports`].
    pub ports: u64,
}

impl Judged {
    /// The longest time that a bridge takes to hand the copies of a frame to all ports.
    const FLOOD_NS: u64 = 1_000_000;

    /// Whether this packet is the first one again, or a copy. Taking another packet for a copy only
    /// leaves it uncounted and unanswered. The ports tell the first packets of two connections
    /// apart: one that is refused ends its conntrack entry at once, and the next one may get an
    /// entry at the same address (`SLAB_TYPESAFE_BY_RCU`).
    #[inline(always)]
    pub const fn is_copy_of(&self, first: &Self) -> bool {
        Reference(self.reference).address().is_some()
            && self.reference == first.reference
            && self.length == first.length
            && self.ports == first.ports
            && self.ifindex != first.ifindex
            && self.at_ns.saturating_sub(first.at_ns) < Self::FLOOD_NS
    }
}

/// Judges a packet and chooses what becomes of it. The packets of a redirected flow follow it
/// without a verdict. A copy gets the verdict of its packet, but is not counted, answered or
/// redirected again.
#[inline(always)]
pub fn decide_egress<M: EgressModel>(packet: &Packet, model: &M) -> (Verdict, Decision) {
    if follows(packet, model) {
        let decision = if model.is_copy() {
            Decision::Drop
        } else {
            Decision::Follow
        };
        return (Verdict::Clear, decision);
    }
    let verdict = judge_packet(packet, model);
    if verdict == Verdict::Clear || !model.is_copy() {
        return (verdict, decide(packet, verdict, model));
    }
    let decision = match verdict {
        Verdict::Deny { enforce: true, .. } => Decision::Drop,
        _ => Decision::Pass,
    };
    (Verdict::Clear, decision)
}

/// Whether the packet belongs to a redirected flow. Without a valid lease it goes where conntrack
/// sends it.
#[inline(always)]
fn follows<M: EgressModel>(packet: &Packet, model: &M) -> bool {
    is_redirectable(model.octets(), packet) && model.is_redirected(packet) && model.lease_is_valid()
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;

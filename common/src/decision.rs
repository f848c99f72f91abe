//! The choice of an action: what becomes of a packet, from the packet, its verdict and the tables.

use crate::{Action, Bytes, Outcome, Packet, Reason, Verdict, is_answerable, is_redirectable};

/// What the datapath does with a packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a decision that is not carried out protects no pod"]
pub enum Decision {
    /// Continue with the next program. epguard never accepts a packet.
    Pass,
    /// Drop the packet silently.
    Drop,
    /// Drop the packet. It should be rejected, but the limits allow no answer.
    DropUnanswered,
    /// Drop the packet. It should be rejected, but no answer has a way to the client.
    DropUnanswerable,
    /// Send the sender a TCP RST or an ICMP error in place of the packet.
    Reject,
    /// Open a redirected flow with the packet, which goes to a live endpoint.
    Redirect,
    /// Send the packet to the live endpoint of its redirected flow.
    Follow,
    /// Send a reply of a redirected flow back to the client.
    Reply,
}

impl Decision {
    /// What is counted beside the packet itself.
    #[inline]
    pub const fn counted_beside(self) -> Option<Outcome> {
        match self {
            Self::DropUnanswered => Some(Outcome::AnswerSuppressed),
            Self::DropUnanswerable => Some(Outcome::Unanswerable),
            _ => None,
        }
    }

    /// The part of the decision that an XDP program carries out. It passes the rest, and the TC
    /// program behind it decides again. `can_reject`: whether the XDP program can write the answer.
    #[inline(always)]
    pub fn before_tc(self, can_reject: impl FnOnce() -> bool) -> Self {
        match self {
            Self::Drop | Self::DropUnanswered | Self::DropUnanswerable => self,
            Self::Reject if can_reject() => self,
            _ => Self::Pass,
        }
    }
}

impl Verdict {
    /// How the packet is counted, given the decision; `None` if it isn't.
    #[inline]
    pub const fn counted_as(self, decision: Decision) -> Option<(Reason, Outcome)> {
        match (self.counted(), decision) {
            (Some((reason, Outcome::Dropped)), Decision::Reject) => {
                Some((reason, Outcome::Rejected))
            }
            (Some((reason, Outcome::Dropped)), Decision::Redirect) => {
                Some((reason, Outcome::Redirected))
            }
            (counted, _) => counted,
        }
    }
}

/// What the choice looks up. Each lookup happens only where its result matters, in the order of the
/// methods.
pub trait ActionModel {
    /// The packet's octets.
    type Octets: Bytes;

    /// The packet's octets.
    fn octets(&self) -> &Self::Octets;
    /// The denial's own action; unset if it has none.
    fn own_action(&self) -> Action;
    /// The action that CONFIG holds for the reason.
    fn configured_action(&self, reason: Reason) -> Action;
    /// Whether BACKENDS names an endpoint for the packet's flow. The model keeps it: the next two
    /// methods are about it, and [`Decision::Redirect`] goes there.
    fn choose_backend(&self, packet: &Packet) -> bool;
    /// Whether OWNERS shows the chosen endpoint's pod at its IP.
    fn is_backend_live(&self) -> bool;
    /// Whether the node has a route to the chosen endpoint that redirected packets may take.
    fn has_route_to_backend(&self, packet: &Packet) -> bool;
    /// Whether the link layer brought the frame to more than one host.
    fn is_to_many(&self) -> bool;
    /// Whether the limits of the denied IP and of the node have room for one more answer.
    fn has_room(&self) -> bool;
    /// Whether an answer finds a way to the client. The last one that was found is where
    /// [`Decision::Reject`] sends it.
    fn has_way(&self) -> bool;
}

/// Chooses what becomes of a judged packet. An action that is not possible falls back: redirect to
/// reject, reject to drop.
#[inline(always)]
pub fn decide<M: ActionModel>(packet: &Packet, verdict: Verdict, model: &M) -> Decision {
    let Verdict::Deny {
        reason,
        enforce: true,
    } = verdict
    else {
        return Decision::Pass;
    };
    let action = model.own_action().or(model.configured_action(reason));
    if action == Action::Redirect && can_redirect(packet, model) {
        return Decision::Redirect;
    }
    if !matches!(action, Action::Reject | Action::Redirect)
        || !can_answer(model.octets(), packet, model.is_to_many())
    {
        return Decision::Drop;
    }
    if !model.has_room() {
        return Decision::DropUnanswered;
    }
    if model.has_way() {
        Decision::Reject
    } else {
        Decision::DropUnanswerable
    }
}

/// Whether the packet may be answered. `is_to_many`: the link layer brought it to more than one
/// host.
#[inline(always)]
pub fn can_answer<B: Bytes>(bytes: &B, packet: &Packet, is_to_many: bool) -> bool {
    !is_to_many && is_answerable(bytes, packet)
}

/// Whether the packet opens a flow that can go to a live endpoint. UDP does not show whether it
/// opens a flow.
#[inline(always)]
fn can_redirect<M: ActionModel>(packet: &Packet, model: &M) -> bool {
    is_redirectable(model.octets(), packet)
        && packet.may_open()
        && model.choose_backend(packet)
        && model.is_backend_live()
        && model.has_route_to_backend(packet)
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;

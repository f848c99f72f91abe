//! The verdict on a packet to a pod's IP itself that leaves the node: headless Services, DNS
//! caches, pooled connections.
//!
//! The node that alone hands out the IP sends the packet away, so no pod of the node holds the IP:
//! a holder has a route, and its packets take that.

use crate::{Addr, Mode, Outcome, Packet, Reason, Verdict};

/// What the decision looks up, in this order, the way last: it costs most.
pub trait TerminatedModel {
    /// Whether a packet from the address was seen since; `None` if TERMINATED does not hold the
    /// address.
    fn lifted(&self, addr: &Addr) -> Option<bool>;
    /// The operator's mode, an upper bound for every reason.
    fn mode(&self) -> Mode;
    /// The operator's mode for [`Reason::Terminated`].
    fn mode_of_reason(&self) -> Mode;
    /// Upper bound of the address that [`TerminatedModel::lifted`] has looked up.
    fn bound(&self) -> Mode;
    /// Whether the agent has renewed the lease in time.
    fn lease_is_valid(&self) -> bool;
    /// Whether the node sends the packet out by an uplink or a tunnel.
    fn leaves(&self, packet: &Packet) -> bool;
    /// Whether the node has routed the packet, or made it. A device such as macvlan passes on
    /// packets of other hosts, which are meant for another network.
    fn is_routed(&self) -> bool;
    /// Whether the node's way to the address is that of its range, and no host on its link has
    /// answered for it. Otherwise a host has the address, though the agent may not know of it yet.
    fn follows_range(&self) -> bool;
}

/// Judges one packet. Agent and kernel must agree that the address is unused: the agent when it
/// adds the address to TERMINATED, the kernel for this packet.
#[inline(always)]
pub fn judge_terminated<M: TerminatedModel>(packet: &Packet, model: &M) -> Verdict {
    let Some(lifted) = model.lifted(&packet.dst) else {
        return Verdict::Clear;
    };
    if lifted {
        return pass(Outcome::Lifted);
    }
    let mode = model
        .mode()
        .lower(model.mode_of_reason())
        .lower(model.bound());
    if mode == Mode::Off {
        return pass(Outcome::Off);
    }
    if !model.lease_is_valid() {
        return pass(Outcome::LeaseExpired);
    }
    if !model.leaves(packet) || !model.is_routed() {
        return Verdict::Clear;
    }
    if !model.follows_range() {
        return pass(Outcome::Announced);
    }
    Verdict::Deny {
        reason: Reason::Terminated,
        enforce: mode == Mode::Enforce,
    }
}

/// Passes the packet, counted as this outcome.
#[inline(always)]
const fn pass(outcome: Outcome) -> Verdict {
    Verdict::Pass(Reason::Terminated, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;
    use crate::testing::{DENYING, SYN, denying_but};

    #[test]
    fn packets_to_an_orphan_ip_are_denied_and_every_doubt_is_a_pass_with_an_outcome_of_its_own() {
        let deny = |enforce| Verdict::Deny {
            reason: Reason::Terminated,
            enforce,
        };
        for transport in [
            Transport::Opening,
            Transport::Ports,
            Transport::Fragment,
            Transport::Other,
        ] {
            let verdict = judge_terminated(&Packet { transport, ..SYN }, &DENYING);
            assert_eq!(verdict, deny(true), "{transport:?}");
        }
        for (sentence, node, expected) in [
            (
                "no orphan IP",
                denying_but(|node| node.lifted = None),
                Verdict::Clear,
            ),
            (
                "lifted",
                denying_but(|node| node.lifted = Some(true)),
                pass(Outcome::Lifted),
            ),
            (
                "to a holder on the node",
                denying_but(|node| node.leaves = false),
                Verdict::Clear,
            ),
            (
                "of another network",
                denying_but(|node| node.routed = false),
                Verdict::Clear,
            ),
            (
                "announced elsewhere",
                denying_but(|node| node.follows = false),
                pass(Outcome::Announced),
            ),
            (
                "past the lease",
                denying_but(|node| node.fresh = false),
                pass(Outcome::LeaseExpired),
            ),
            (
                "off by the operator",
                denying_but(|node| node.mode = Mode::Off),
                pass(Outcome::Off),
            ),
            (
                "off by annotation",
                denying_but(|node| node.bound = Mode::Off),
                pass(Outcome::Off),
            ),
            (
                "off by reason",
                denying_but(|node| node.of_reason = Mode::Off),
                pass(Outcome::Off),
            ),
            (
                "observe by the operator",
                denying_but(|node| node.mode = Mode::Observe),
                deny(false),
            ),
            (
                "observe by annotation",
                denying_but(|node| node.bound = Mode::Observe),
                deny(false),
            ),
        ] {
            let ports = Packet {
                transport: Transport::Ports,
                ..SYN
            };
            assert_eq!(judge_terminated(&ports, &node), expected, "{sentence}");
        }
    }
}

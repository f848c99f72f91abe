//! The verdict on a packet that enters the node's stack for a pod's IP itself: headless Services, DNS caches, pooled
//! connections.

use crate::{Addr, Mode, Outcome, Packet, Reason, Verdict};

/// What the decision looks up, in this order, the route last: it costs most.
pub trait TerminatedModel {
    /// Whether a packet from the address was seen since; `None` if TERMINATED does not hold the address.
    fn lifted(&self, addr: &Addr) -> Option<bool>;
    /// Whether the frame is addressed to this host itself and belongs to no VLAN. The node's routes do not apply to
    /// frames for other hosts or networks.
    fn is_ours(&self) -> bool;
    /// The operator's mode, an upper bound for every reason.
    fn mode(&self) -> Mode;
    /// The operator's mode for [`Reason::Terminated`].
    fn mode_of_reason(&self) -> Mode;
    /// Upper bound of the address that [`TerminatedModel::lifted`] has looked up.
    fn bound(&self) -> Mode;
    /// Whether the agent has renewed the lease in time.
    fn lease_is_valid(&self) -> bool;
    /// Where the node would forward the packet to, now.
    fn next_hop(&self, packet: &Packet) -> NextHop;
}

/// Where the node's routes lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// Off the node, through an uplink or a tunnel, or into a blackhole: no pod on the node holds the address.
    Away,
    /// Into a bridge: no route names its port.
    Bridge,
    /// To a pod, to an interface without a role yet, to the node itself; or there is no route, and the node sends the sender
    /// an error.
    Held,
}

/// Judges one packet. Agent and kernel must agree that the address is unused: the agent when it adds the address to
/// TERMINATED, the kernel for this packet.
#[inline(always)]
pub fn judge_terminated<M: TerminatedModel>(packet: &Packet, model: &M) -> Verdict {
    let pass = |outcome| Verdict::Pass(Reason::Terminated, outcome);
    let Some(lifted) = model.lifted(&packet.dst) else {
        return Verdict::Clear;
    };
    if !model.is_ours() {
        return Verdict::Clear;
    }
    if lifted {
        return pass(Outcome::Lifted);
    }
    let mode = model.mode().lower(model.mode_of_reason()).lower(model.bound());
    if mode == Mode::Off {
        return pass(Outcome::Off);
    }
    if !model.lease_is_valid() {
        return pass(Outcome::LeaseExpired);
    }
    let enforce = match model.next_hop(packet) {
        NextHop::Held => return pass(Outcome::Held),
        NextHop::Bridge => false,
        NextHop::Away => mode == Mode::Enforce,
    };
    Verdict::Deny { reason: Reason::Terminated, enforce }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;
    use crate::testing::{DENYING, Node, SYN};

    #[test]
    fn packets_to_an_orphan_ip_are_denied_and_every_doubt_is_a_pass_with_an_outcome_of_its_own() {
        let deny = |enforce| Verdict::Deny { reason: Reason::Terminated, enforce };
        for transport in [Transport::Opening, Transport::Ports, Transport::Fragment, Transport::Other] {
            let verdict = judge_terminated(&Packet { transport, ..SYN }, &DENYING);
            assert_eq!(verdict, deny(true), "{transport:?}");
        }
        let pass = |outcome| Verdict::Pass(Reason::Terminated, outcome);
        for (sentence, node, expected) in [
            ("no orphan IP", Node { lifted: None, ..DENYING }, Verdict::Clear),
            ("for another host", Node { ours: false, ..DENYING }, Verdict::Clear),
            ("lifted", Node { lifted: Some(true), ..DENYING }, pass(Outcome::Lifted)),
            ("a route to a holder", Node { next_hop: NextHop::Held, ..DENYING }, pass(Outcome::Held)),
            ("past the lease", Node { fresh: false, ..DENYING }, pass(Outcome::LeaseExpired)),
            ("off by the operator", Node { mode: Mode::Off, ..DENYING }, pass(Outcome::Off)),
            ("off by annotation", Node { bound: Mode::Off, ..DENYING }, pass(Outcome::Off)),
            ("off by reason", Node { of_reason: Mode::Off, ..DENYING }, pass(Outcome::Off)),
            ("into a bridge", Node { next_hop: NextHop::Bridge, ..DENYING }, deny(false)),
            ("observe by the operator", Node { mode: Mode::Observe, ..DENYING }, deny(false)),
            ("observe by annotation", Node { bound: Mode::Observe, ..DENYING }, deny(false)),
        ] {
            let ports = Packet { transport: Transport::Ports, ..SYN };
            assert_eq!(judge_terminated(&ports, &node), expected, "{sentence}");
        }
    }
}

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
#[allow(clippy::inline_always, reason = "one function to the verifier: no stack frame of its own")]
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
    use crate::testing::{SYN, X};

    #[derive(Clone, Copy, Debug)]
    struct World {
        lifted: Option<bool>,
        ours: bool,
        mode: Mode,
        of_reason: Mode,
        bound: Mode,
        fresh: bool,
        next_hop: NextHop,
    }

    const GONE: World = World {
        lifted: Some(false),
        ours: true,
        mode: Mode::Enforce,
        of_reason: Mode::Enforce,
        bound: Mode::Enforce,
        fresh: true,
        next_hop: NextHop::Away,
    };

    impl TerminatedModel for World {
        fn lifted(&self, addr: &Addr) -> Option<bool> {
            self.lifted.filter(|_| *addr == X)
        }
        fn is_ours(&self) -> bool {
            self.ours
        }
        fn mode(&self) -> Mode {
            self.mode
        }
        fn mode_of_reason(&self) -> Mode {
            self.of_reason
        }
        fn bound(&self) -> Mode {
            self.bound
        }
        fn lease_is_valid(&self) -> bool {
            self.fresh
        }
        fn next_hop(&self, _: &Packet) -> NextHop {
            self.next_hop
        }
    }

    fn verdict(world: World, transport: Transport) -> Verdict {
        judge_terminated(&Packet { transport, ..SYN }, &world)
    }

    const DENIED: Verdict = Verdict::Deny { reason: Reason::Terminated, enforce: true };

    #[test]
    fn packets_to_an_orphan_ip_are_denied_and_every_doubt_is_a_pass_with_an_outcome_of_its_own() {
        for transport in [Transport::Opening, Transport::Ports, Transport::Fragment, Transport::Other] {
            assert_eq!(verdict(GONE, transport), DENIED, "{transport:?}");
        }
        let observed = Verdict::Deny { reason: Reason::Terminated, enforce: false };
        let pass = |outcome| Verdict::Pass(Reason::Terminated, outcome);
        let table = [
            (World { lifted: None, ..GONE }, Verdict::Clear),
            (World { ours: false, ..GONE }, Verdict::Clear),
            (World { lifted: Some(true), ..GONE }, pass(Outcome::Lifted)),
            (World { next_hop: NextHop::Held, ..GONE }, pass(Outcome::Held)),
            (World { fresh: false, ..GONE }, pass(Outcome::LeaseExpired)),
            (World { mode: Mode::Off, ..GONE }, pass(Outcome::Off)),
            (World { bound: Mode::Off, ..GONE }, pass(Outcome::Off)),
            (World { of_reason: Mode::Off, ..GONE }, pass(Outcome::Off)),
            (World { next_hop: NextHop::Bridge, ..GONE }, observed),
            (World { mode: Mode::Observe, ..GONE }, observed),
            (World { bound: Mode::Observe, ..GONE }, observed),
        ];
        for (world, expected) in table {
            assert_eq!(verdict(world, Transport::Ports), expected, "{world:?}");
        }
    }
}

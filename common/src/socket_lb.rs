//! Socket load balancers: programs that replace a Service's address with an endpoint's when a
//! socket connects or sends.
//!
//! No packet shows the Service then. Hooks before the load balancer's see the Service of a call,
//! hooks after it the endpoint.

use crate::protocol::{TCP, UDP};
use crate::{Action, Addr, Decision, Packet, Reason, Transport, Verdict, Vip};

/// Value of CALL, per CPU: the call that the hook before the load balancer has seen, for the hook
/// after it. Another thread may run between the two and overwrite it, so the second hook compares
/// socket and thread.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// The socket; 0: no call.
    pub cookie: u64,
    /// The thread: a part of the address of its `task_struct`.
    pub thread: u32,
    /// A checksum of the rest. Threads that preempt each other while they write may leave parts of
    /// two calls.
    pub sum: u32,
    /// The destination that the caller named.
    pub vip: Vip,
    /// Always 0.
    pub reserved: u32,
}

impl Call {
    /// A call of a socket and a thread.
    #[inline(always)]
    pub const fn new(cookie: u64, thread: u32, vip: Vip) -> Self {
        Self {
            cookie,
            thread,
            sum: Self::sum(cookie, thread, &vip),
            vip,
            reserved: 0,
        }
    }

    /// Whether this is the call of that socket and thread, and whole.
    #[inline(always)]
    pub const fn is_of(&self, cookie: u64, thread: u32) -> bool {
        self.cookie != 0
            && self.cookie == cookie
            && self.thread == thread
            && self.sum == Self::sum(cookie, thread, &self.vip)
    }

    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "any 32 bits of the product will do"
    )]
    const fn sum(cookie: u64, thread: u32, vip: &Vip) -> u32 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [one, two, three, four] = vip.addr.words();
        let mut sum = cookie.wrapping_mul(ODD) ^ (one as u64) << 32 ^ two as u64;
        sum = sum.wrapping_mul(ODD) ^ (three as u64) << 32 ^ four as u64;
        sum = sum.wrapping_mul(ODD)
            ^ (thread as u64) << 32
            ^ (vip.port as u64) << 8
            ^ vip.protocol as u64;
        (sum.wrapping_mul(ODD) >> 32) as u32
    }
}

/// Value of CONNECTIONS, kept in the socket: where it is connected, before and after the load
/// balancer.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Connection {
    /// From when on every packet of the socket to the endpoint belongs to this connection,
    /// `CLOCK_BOOTTIME`; [`u64::MAX`]: never.
    pub settled_ns: u64,
    /// The Service's address that the caller named.
    pub vip: Vip,
    /// The endpoint that the load balancer, or epguard, chose: IP, port and protocol.
    pub endpoint: Vip,
    /// [`crate::View::socket_lb_epoch`] at that time. Since then the hooks have missed no call.
    pub epoch: u32,
    /// Always 0.
    pub reserved: u32,
}

impl Connection {
    /// A connection that is made now. What a UDP socket sent before may still wait to leave: its
    /// packets count from [`PENDING_NS`] later on. A TCP socket has no such packets.
    #[inline(always)]
    pub const fn new(vip: Vip, endpoint: Vip, epoch: u32, now_ns: u64) -> Self {
        let settles = if vip.protocol == TCP { 0 } else { PENDING_NS };
        Self {
            settled_ns: now_ns + settles,
            vip,
            endpoint,
            epoch,
            reserved: 0,
        }
    }

    /// Whether a packet of the socket belongs to the connection, and nothing that the socket did
    /// since was missed.
    #[inline(always)]
    pub fn has(&self, packet: &Packet, epoch: u32, now_ns: u64) -> bool {
        packet.transport.has_ports()
            && self.endpoint == Vip::of(packet)
            && self.epoch == epoch
            && self.settled_ns <= now_ns
    }

    /// Whether a datagram with an address of its own looks like those of the connection, although
    /// it means another Service, or none.
    #[inline(always)]
    pub fn is_blurred_by(&self, vip: &Vip, endpoint: &Vip) -> bool {
        self.endpoint == *endpoint && self.vip != *vip
    }
}

/// What the first packet of a call would be, as far as it decides. Its source is not known yet.
#[inline(always)]
pub const fn packet_of(endpoint: &Vip) -> Packet {
    let transport = match endpoint.protocol {
        TCP => Transport::Opening,
        UDP => Transport::Ports,
        _ => Transport::Other,
    };
    Packet {
        src: Addr::v4([0; 4]),
        dst: endpoint.addr,
        src_port: 0,
        dst_port: endpoint.port,
        protocol: endpoint.protocol,
        transport,
        network_at: 0,
        transport_at: 0,
    }
}

/// The same as the choice of a live endpoint needs it. The network namespace stands in place of the
/// address, so that a sticky choice holds for a pod, and the socket in place of the port.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "any 16 bits of the cookie distinguish sockets"
)]
pub const fn packet_from(endpoint: &Vip, netns: u64, cookie: u64) -> Packet {
    Packet {
        src: Addr::from_words([0, 0, (netns >> 32) as u32, netns as u32]),
        src_port: cookie as u16,
        ..packet_of(endpoint)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a decision that is not carried out protects no pod"]
pub enum CallDecision {
    /// The call goes on.
    Pass,
    /// The same, and the hooks that its packets pass count these.
    PassUncounted,
    /// The call goes on, and the hooks that its packets pass deny them.
    Wait,
    /// The call fails.
    Refuse,
    /// The call fails, since no hook could deny its packets.
    RefuseUnseen,
    /// The call goes to another endpoint.
    Redirect,
}

impl CallDecision {
    /// The same for a packet, as it is counted; `None`: only the packets are counted.
    #[inline(always)]
    pub const fn as_of_packet(self) -> Option<Decision> {
        match self {
            Self::Pass => Some(Decision::Pass),
            Self::PassUncounted | Self::Wait => None,
            Self::Refuse | Self::RefuseUnseen => Some(Decision::Reject),
            Self::Redirect => Some(Decision::Redirect),
        }
    }
}

/// What the choice looks up about a call, in the order of the methods.
pub trait CallModel {
    /// The denial's own action; unset if it has none.
    fn own_action(&self) -> Action;
    /// The action that CONFIG holds for the reason.
    fn configured_action(&self, reason: Reason) -> Action;
    /// Whether a hook judges the packets of this call by their socket, from the first one on.
    fn packets_are_judged(&self) -> bool;
    /// Whether BACKENDS names a live endpoint for the call, and OWNERS shows its pod.
    fn has_backend(&self, packet: &Packet) -> bool;
}

/// Chooses what becomes of a judged call. Only TCP is redirected: where a datagram's reply comes
/// from is shown to the caller, and that must stay the Service. Only TCP waits: the first datagrams
/// of a UDP socket may be those of an earlier call.
#[inline(always)]
pub fn decide_call<M: CallModel>(packet: &Packet, verdict: Verdict, model: &M) -> CallDecision {
    let Verdict::Deny { reason, enforce } = verdict else {
        return CallDecision::Pass;
    };
    let enforced = match model.own_action().or(model.configured_action(reason)) {
        Action::Redirect if packet.protocol == TCP && model.has_backend(packet) => {
            CallDecision::Redirect
        }
        Action::Redirect | Action::Reject => CallDecision::Refuse,
        Action::Unset | Action::Drop if packet.protocol == TCP && model.packets_are_judged() => {
            CallDecision::Wait
        }
        Action::Unset | Action::Drop => CallDecision::RefuseUnseen,
    };
    match enforced {
        _ if enforce => enforced,
        // Its packets would be dropped, so they are counted.
        CallDecision::Wait => CallDecision::PassUncounted,
        _ => CallDecision::Pass,
    }
}

/// The longest time that a datagram waits, as for its neighbour's address. A later one was dropped.
pub const PENDING_NS: u64 = 5_000_000_000;

#[cfg(test)]
#[path = "socket_lb_tests.rs"]
mod tests;

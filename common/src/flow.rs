//! Redirected flows: keys and values of FLOWS, OPENING and RETURNS.

use crate::protocol::TCP;
use crate::{Addr, Backend, Packet, Vip};

/// Key of FLOWS and RETURNS, and of OPENING and `OPENING_RETURNS`: a flow with the addresses behind
/// conntrack, on one side. conntrack gives no two connections the same.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Flow {
    /// The address that opened the flow, after masquerading.
    pub client: Addr,
    /// FLOWS, OPENING: the denied endpoint. The others: the live one.
    pub endpoint: Addr,
    /// Host order.
    pub client_port: u16,
    /// Host order.
    pub endpoint_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: [u8; 3],
}

impl Flow {
    /// The flow of a packet to an endpoint.
    #[inline(always)]
    pub const fn to(packet: &Packet) -> Self {
        Self {
            client: packet.src,
            endpoint: packet.dst,
            client_port: packet.src_port,
            endpoint_port: packet.dst_port,
            protocol: packet.protocol,
            reserved: [0; 3],
        }
    }

    /// The flow of a packet from an endpoint.
    #[inline(always)]
    pub const fn from(packet: &Packet) -> Self {
        Self {
            client: packet.dst,
            endpoint: packet.src,
            client_port: packet.dst_port,
            endpoint_port: packet.src_port,
            protocol: packet.protocol,
            reserved: [0; 3],
        }
    }

    /// The key in FLOWS of a reply's flow.
    #[inline(always)]
    pub const fn with_denied_endpoint(self, back: &Return) -> Self {
        Self {
            endpoint: back.target,
            endpoint_port: back.target_port,
            ..self
        }
    }

    /// The key in RETURNS of the same flow: with the live endpoint's address.
    #[inline(always)]
    pub const fn with_live_endpoint(self, backend: &Backend) -> Self {
        Self {
            endpoint: backend.addr,
            endpoint_port: backend.port,
            ..self
        }
    }
}

/// Value of FLOWS and OPENING: where a flow was redirected.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Redirected {
    /// The live endpoint.
    pub backend: Backend,
    /// The Service's address that the client asked for: a later connection with the same addresses
    /// may ask for another one.
    pub vip: Vip,
    /// [`Redirected::CLIENT_CLOSED`] and the others.
    pub flags: u32,
    /// TCP, with [`Redirected::ANSWERED`]: the acknowledgement number of a client that got the
    /// SYN-ACK.
    pub proof: u32,
    /// The last packet in either direction, `CLOCK_BOOTTIME`.
    pub used_ns: u64,
}

impl Redirected {
    /// The client sent a FIN.
    pub const CLIENT_CLOSED: u32 = 1;
    /// The endpoint sent a FIN or a RST.
    pub const ENDPOINT_CLOSED: u32 = 2;
    /// The endpoint's SYN-ACK came from where the node routes the endpoint.
    pub const ANSWERED: u32 = 4;
    /// The client has acknowledged that SYN-ACK, so its address is not forged.
    pub const PROVEN: u32 = 8;
    /// The flow found no room in FLOWS, and was counted.
    pub const BEYOND_SHARE: u32 = 16;
    /// The client sent a RST, which counts as both sides' FIN until the client goes on.
    pub const RESET: u32 = 32;

    /// The client has its own connection to the live endpoint from the same port, so that answers
    /// would look the same; or replies have no way back. The flow is refused until it is over.
    pub const TAKEN: u32 = 64;

    const CLOSED: u32 = Self::CLIENT_CLOSED | Self::ENDPOINT_CLOSED;

    /// Whether both sides have closed the flow. One side alone may be a forged packet.
    #[inline(always)]
    pub const fn is_closed(flags: u32) -> bool {
        flags & Self::CLOSED == Self::CLOSED
    }

    /// Whether a TCP packet of the client with this acknowledgement number proves the handshake.
    /// Only a host that received the SYN-ACK knows the number.
    #[inline(always)]
    pub const fn is_proven_by(&self, acknowledged: u32) -> bool {
        self.flags & Self::ANSWERED != 0 && acknowledged == self.proof
    }

    /// Whether a packet of the live endpoint with these TCP flags belongs to another connection of
    /// the client: the first answer to a SYN is a SYN-ACK or a RST, and that of an endpoint that
    /// has the connection already an ACK (RFC 5961, section 4).
    #[inline(always)]
    pub const fn is_foreign(&self, protocol: u8, tcp_flags: u8) -> bool {
        const SYN_OR_RST: u8 = 0x06;
        protocol == TCP && self.flags & Self::ANSWERED == 0 && tcp_flags & SYN_OR_RST == 0
    }

    /// Whether a packet with the flow's addresses and ports belongs to it. One that opens a flow
    /// after the client has closed this one belongs to another.
    #[inline(always)]
    pub const fn is_for(&self, packet: &Packet) -> bool {
        !(packet.opens() && self.flags & Self::CLIENT_CLOSED != 0)
    }

    /// Whether another flow may be redirected that looks the same to the live endpoint: this one is
    /// closed or forgotten, or a TCP handshake without proof, as anyone can forge a SYN.
    #[inline(always)]
    pub const fn gives_way(&self, protocol: u8, now_ns: u64) -> bool {
        let unproven = protocol == TCP && self.flags & Self::PROVEN == 0;
        self.flags & Self::TAKEN == 0 && (unproven || Self::is_closed(self.flags))
            || self.is_over(protocol, now_ns)
    }

    /// Whether the flow has ended: after conntrack's default timeouts, but a day for TCP.
    #[inline(always)]
    pub const fn is_over(&self, protocol: u8, now_ns: u64) -> bool {
        let open = self.flags & (Self::PROVEN | Self::CLOSED | Self::TAKEN) == Self::PROVEN;
        now_ns.saturating_sub(self.used_ns) > patience(protocol, open)
    }
}

/// Key of CLIENTS for the flows of all clients together.
pub const ALL_CLIENTS: Addr = Addr { octets: [0; 16] };

/// Whether FLOWS has room for another flow of a client that has `taken` of them, while all have
/// `all`: a client may have [`FLOWS_PER_CLIENT`](crate::capacity::FLOWS_PER_CLIENT), and fewer than
/// are free, so that others always find a place.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a capacity")]
pub const fn has_room(taken: u32, all: u32) -> bool {
    let free = (crate::capacity::FLOWS as u32).saturating_sub(all);
    taken < crate::capacity::FLOWS_PER_CLIENT && taken < free
}

/// For how long after its last packet a flow may go on, nanoseconds.
const fn patience(protocol: u8, open: bool) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match (protocol, open) {
        (TCP, true) => 86_400 * SECOND,
        (TCP, false) => 120 * SECOND,
        _ => 180 * SECOND,
    }
}

/// Value of RETURNS and `OPENING_RETURNS`: where a reply goes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Return {
    /// The denied endpoint, which the client's conntrack entry contains.
    pub target: Addr,
    /// Where the node routes the denied endpoint: replies enter there, or a strict `rp_filter`
    /// would drop them.
    pub ifindex: u32,
    /// Host order.
    pub target_port: u16,
    /// Always 0.
    pub reserved: u16,
    /// Destination and source of the Ethernet header of a reply, see [`crate::ANSWER_MAC`]; all
    /// zero on devices without one.
    pub ethernet: [u16; 6],
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;

//! Flows that were steered, as the client's side and as the endpoint's side of them know them.

use crate::{Addr, Backend, Packet, Slot};

/// Key of FLOWS and of RETURNS: a flow as it is seen behind conntrack on one side.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Flow {
    /// Who opened it, after masquerading.
    pub client: Addr,
    /// FLOWS: the denied endpoint. RETURNS: the live one.
    pub endpoint: Addr,
    /// Host order.
    pub client_port: u16,
    /// Host order.
    pub endpoint_port: u16,
    /// FLOWS: the Service that is meant. RETURNS: none.
    pub slot: Slot,
    /// IP protocol number.
    pub protocol: u8,
    /// Always 0.
    pub reserved: u8,
}

impl Flow {
    /// The flow of a packet to an endpoint.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn to(packet: &Packet, slot: Slot) -> Self {
        Self {
            client: packet.src,
            endpoint: packet.dst,
            client_port: packet.src_port,
            endpoint_port: packet.dst_port,
            slot,
            protocol: packet.protocol,
            reserved: 0,
        }
    }

    /// The flow of a packet from an endpoint.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn from(packet: &Packet) -> Self {
        Self {
            client: packet.dst,
            endpoint: packet.src,
            client_port: packet.dst_port,
            endpoint_port: packet.src_port,
            slot: Slot::NONE,
            protocol: packet.protocol,
            reserved: 0,
        }
    }

    /// The flow of an answer as FLOWS knows it.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn before(self, back: &Return) -> Self {
        Self {
            endpoint: back.target,
            endpoint_port: back.target_port,
            slot: back.slot,
            ..self
        }
    }

    /// The same flow as the live endpoint sees it.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub const fn at(self, backend: &Backend) -> Self {
        Self {
            endpoint: backend.addr,
            endpoint_port: backend.port,
            slot: Slot::NONE,
            ..self
        }
    }
}

/// Value of FLOWS: where a flow was steered.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Steered {
    /// The live endpoint.
    pub backend: Backend,
    /// Not 0: one side has said goodbye (FIN or RST).
    pub closing: u32,
    /// The last packet in either direction, `CLOCK_BOOTTIME`.
    pub used_ns: u64,
}

impl Steered {
    /// Whether nobody needs the flow any more: as long as conntrack remembers one by default, but a day for TCP.
    #[must_use]
    pub const fn is_over(&self, protocol: u8, now_ns: u64) -> bool {
        const SECOND: u64 = 1_000_000_000;
        const TCP: u8 = 6;
        let patience = match (protocol, self.closing) {
            (TCP, 0) => 86_400 * SECOND,
            (TCP, _) => 120 * SECOND,
            _ => 180 * SECOND,
        };
        now_ns.saturating_sub(self.used_ns) > patience
    }
}

/// Value of RETURNS: how an answer finds its way back.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Return {
    /// The denied endpoint, which the client's conntrack entry knows.
    pub target: Addr,
    /// Where packets leave towards it: answers come in there, or a strict `rp_filter` would drop them.
    pub ifindex: u32,
    /// Host order.
    pub target_port: u16,
    /// The Service that is meant, for the key in FLOWS.
    pub slot: Slot,
    /// Destination and source of the Ethernet header that a packet from the denied endpoint would have; all zero on
    /// devices without one.
    pub ethernet: [u16; 6],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;

    const LIVE: Backend = Backend {
        addr: Addr::v4([10, 244, 1, 2]),
        uid: crate::Uid::NONE,
        port: 9090,
        reserved: 0,
    };

    #[test]
    fn layouts_are_as_pinned_and_hold_no_implicit_padding() {
        assert_eq!(size_of::<Flow>(), 2 * 16 + 3 * 2 + 1 + 1);
        assert_eq!(size_of::<Steered>(), 36 + 4 + 8);
        assert_eq!(size_of::<Return>(), 16 + 4 + 2 + 2 + 12);
    }

    #[test]
    fn an_answer_is_found_by_what_the_packet_became_and_leads_back() {
        let packet = Packet {
            src: Addr::v4([10, 244, 2, 7]),
            dst: Addr::v4([10, 244, 1, 10]),
            src_port: 31_000,
            dst_port: 8080,
            protocol: 6,
            transport: Transport::Opening,
            network_at: 0,
            transport_at: 20,
        };
        let slot = Slot { number: 0x8001 };
        let flow = Flow::to(&packet, slot);
        let answer = Packet {
            src: LIVE.addr,
            dst: packet.src,
            src_port: LIVE.port,
            dst_port: packet.src_port,
            ..packet
        };
        let back = Return {
            target: packet.dst,
            target_port: packet.dst_port,
            slot,
            ..Return::default()
        };
        assert_eq!(Flow::from(&answer), flow.at(&LIVE));
        assert_eq!(Flow::from(&answer).before(&back), flow);
    }

    #[test]
    fn a_closed_flow_is_forgotten_sooner() {
        let flow = |closing| Steered {
            closing,
            ..Steered::default()
        };
        let minutes = |minutes: u64| minutes * 60_000_000_000;
        assert!(!flow(0).is_over(6, minutes(60)));
        assert!(flow(1).is_over(6, minutes(3)));
        assert!(flow(0).is_over(17, minutes(4)));
        assert!(!flow(0).is_over(17, minutes(2)));
    }
}

//! Cilium's maps, as its programs write them where they translate Services: keys and values that
//! epguard looks up.
//!
//! All fields are in network order, so they are copied as they lie in memory. The layouts are those
//! of Cilium 1.14 to 1.21 (`struct ipv4_ct_tuple`, `ct_entry`, `lb4_reverse_nat`,
//! `ipv4_revnat_tuple` and `ipv4_revnat_entry` in its `bpf/lib`, each with its twin for IPv6);
//! docs/cilium.md cites each. The agent looks at type and sizes of each map before the programs use
//! it.

use crate::{Addr, Packet, Vip};

/// Key of `cilium_ct4_global` and `cilium_ct_any4_global`: a connection that a pod of this node
/// opened.
#[repr(C, packed)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection4 {
    client: u32,
    backend: u32,
    backend_port: u16,
    client_port: u16,
    protocol: u8,
    /// `TUPLE_F_OUT`.
    flags: u8,
}

/// Key of `cilium_ct6_global` and `cilium_ct_any6_global`.
#[repr(C, packed)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection6 {
    client: [u32; 4],
    backend: [u32; 4],
    backend_port: u16,
    client_port: u16,
    protocol: u8,
    flags: u8,
}

/// Value of the four maps: `struct ct_entry`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionEntry {
    before: [u16; 19],
    /// Key of the map of reversals; 0: Cilium has not translated the destination.
    pub reversal: u16,
    behind: [u16; 8],
}

/// Value of `cilium_lb4_reverse_nat`: the Service's address that was translated.
#[repr(C, packed(2))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service4 {
    addr: u32,
    port: u16,
}

/// Value of `cilium_lb6_reverse_nat`.
#[repr(C, packed(2))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service6 {
    addr: [u32; 4],
    port: u16,
}

/// Key of `cilium_lb4_reverse_sk`: a socket, and the endpoint that was chosen for it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket4 {
    /// Host order.
    cookie: u64,
    backend: u32,
    backend_port: u16,
    reserved: u16,
}

/// Key of `cilium_lb6_reverse_sk`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket6 {
    cookie: u64,
    backend: [u32; 4],
    backend_port: u16,
    reserved: u16,
    reserved_word: u32,
}

/// Value of `cilium_lb4_reverse_sk`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketService4 {
    service: Service4,
    reversal: u16,
}

/// Value of `cilium_lb6_reverse_sk`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketService6 {
    service: Service6,
    reversal: u16,
}

impl Connection4 {
    /// The connection of a packet of IPv4 with ports.
    #[inline(always)]
    pub const fn from_packet(packet: &Packet) -> Self {
        Self {
            client: packet.src.words()[3],
            backend: packet.dst.words()[3],
            backend_port: packet.dst_port.to_be(),
            client_port: packet.src_port.to_be(),
            protocol: packet.protocol,
            flags: 0,
        }
    }
}

impl Connection6 {
    /// The connection of a packet of IPv6 with ports.
    #[inline(always)]
    pub const fn from_packet(packet: &Packet) -> Self {
        Self {
            client: packet.src.words(),
            backend: packet.dst.words(),
            backend_port: packet.dst_port.to_be(),
            client_port: packet.src_port.to_be(),
            protocol: packet.protocol,
            flags: 0,
        }
    }
}

impl Socket4 {
    /// The socket of a packet of IPv4 with ports.
    #[inline(always)]
    pub const fn from_cookie(cookie: u64, packet: &Packet) -> Self {
        Self {
            cookie,
            backend: packet.dst.words()[3],
            backend_port: packet.dst_port.to_be(),
            reserved: 0,
        }
    }
}

impl Socket6 {
    /// The socket of a packet of IPv6 with ports.
    #[inline(always)]
    pub const fn from_cookie(cookie: u64, packet: &Packet) -> Self {
        Self {
            cookie,
            backend: packet.dst.words(),
            backend_port: packet.dst_port.to_be(),
            reserved: 0,
            reserved_word: 0,
        }
    }
}

impl Service4 {
    /// The Service's address, for a protocol.
    #[inline(always)]
    pub const fn vip(self, protocol: u8) -> Vip {
        Vip {
            addr: Addr::from_v4_word(self.addr),
            port: u16::from_be(self.port),
            protocol,
            reserved: 0,
        }
    }
}

impl Service6 {
    /// The Service's address, for a protocol.
    #[inline(always)]
    pub const fn vip(self, protocol: u8) -> Vip {
        // Word by word: as a whole they would be copied by a function, which takes a stack of its
        // own.
        let [first, second, third, last] = self.addr;
        Vip {
            addr: Addr::from_words([first, second, third, last]),
            port: u16::from_be(self.port),
            protocol,
            reserved: 0,
        }
    }
}

impl SocketService4 {
    /// The Service's address, for a protocol.
    #[inline(always)]
    pub const fn vip(self, protocol: u8) -> Vip {
        self.service.vip(protocol)
    }
}

impl SocketService6 {
    /// The Service's address, for a protocol.
    #[inline(always)]
    pub const fn vip(self, protocol: u8) -> Vip {
        self.service.vip(protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SYN;

    #[test]
    fn sizes_and_offsets_are_ciliums() {
        assert_eq!(size_of::<Connection4>(), 14);
        assert_eq!(size_of::<Connection6>(), 38);
        assert_eq!(size_of::<ConnectionEntry>(), 56);
        assert_eq!(core::mem::offset_of!(ConnectionEntry, reversal), 38);
        assert_eq!((size_of::<Service4>(), size_of::<Service6>()), (6, 18));
        assert_eq!((size_of::<Socket4>(), size_of::<Socket6>()), (16, 32));
        assert_eq!(
            (size_of::<SocketService4>(), size_of::<SocketService6>()),
            (8, 20)
        );
    }

    #[test]
    fn a_key_has_the_octets_that_cilium_writes() {
        let (src, dst) = (Addr::v4([10, 0, 1, 2]), Addr::v4([10, 0, 2, 3]));
        let packet = Packet {
            src,
            dst,
            src_port: 0x1234,
            dst_port: 80,
            ..SYN
        };
        // SAFETY: 14 octets without padding.
        let octets: [u8; 14] = unsafe { core::mem::transmute(Connection4::from_packet(&packet)) };
        assert_eq!(octets, [10, 0, 1, 2, 10, 0, 2, 3, 0, 80, 0x12, 0x34, 6, 0]);
        // SAFETY: 16 octets without padding.
        let octets: [u8; 16] = unsafe { core::mem::transmute(Socket4::from_cookie(7, &packet)) };
        assert_eq!(octets, [7, 0, 0, 0, 0, 0, 0, 0, 10, 0, 2, 3, 0, 80, 0, 0]);

        let (client, backend) = ([0xfd; 16], [0x20; 16]);
        let packet = Packet {
            src: Addr::v6(client),
            dst: Addr::v6(backend),
            ..packet
        };
        // SAFETY: 38 octets without padding.
        let octets: [u8; 38] = unsafe { core::mem::transmute(Connection6::from_packet(&packet)) };
        assert_eq!(
            octets[..],
            [&client[..], &backend, &[0, 80, 0x12, 0x34, 6, 0]].concat()
        );
        // SAFETY: 32 octets without padding.
        let octets: [u8; 32] = unsafe { core::mem::transmute(Socket6::from_cookie(7, &packet)) };
        assert_eq!(
            octets[..],
            [
                &[7, 0, 0, 0, 0, 0, 0, 0],
                &backend[..],
                &[0, 80, 0, 0, 0, 0, 0, 0]
            ]
            .concat()
        );
    }

    #[test]
    fn a_service_is_read_as_cilium_wrote_it() {
        let vip = |addr| Vip {
            addr,
            port: 80,
            protocol: 6,
            reserved: 0,
        };
        // SAFETY: 8 octets without padding, and every bit pattern is a SocketService4.
        let at_socket: SocketService4 =
            unsafe { core::mem::transmute([10u8, 96, 0, 1, 0, 80, 3, 0]) };
        assert_eq!(at_socket.vip(6), vip(Addr::v4([10, 96, 0, 1])));
        let mut octets = [0xfdu8; 20];
        octets[16..].copy_from_slice(&[0, 80, 3, 0]);
        // SAFETY: 20 octets without padding, and every bit pattern is a SocketService6.
        let at_socket: SocketService6 = unsafe { core::mem::transmute(octets) };
        assert_eq!(at_socket.vip(6), vip(Addr::v6([0xfd; 16])));
    }
}

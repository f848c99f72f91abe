//! The kernel's conntrack entry of a packet: what its client asked for, before DNAT and masquerade.

use crate::packet::Extension;
use crate::protocol::{ICMP, ICMPV6};
use crate::{Addr, Packet, Transport, Vip};

/// `struct nf_conntrack_tuple` of the kernel, the same from Linux 5.14 to 6.18. The agent compares
/// it with the kernel's BTF.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tuple {
    /// As on the wire; IPv4 in the first word.
    pub src: [u32; 4],
    /// Network order.
    pub src_port: u16,
    /// `AF_INET` or `AF_INET6`; 0 in a template.
    pub family: u16,
    /// As on the wire; IPv4 in the first word.
    pub dst: [u32; 4],
    /// Network order.
    pub dst_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// 0 in the original direction, 1 in that of replies.
    pub direction: u8,
}

/// The part of `struct nf_conn` that decides: `tuplehash[0].tuple` to `tuplehash[1].tuple`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// The connection as its client opened it.
    pub original: Tuple,
    /// The links of `tuplehash[1]` in the kernel's hash table.
    pub between: [u64; 2],
    /// The connection as its replies come: the source is the endpoint that DNAT chose.
    pub reply: Tuple,
}

/// `sk_buff._nfct`: the address of an entry, with its `enum ip_conntrack_info` in the low three
/// bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference(pub u64);

impl Reference {
    const INFO: u64 = 7;
    /// `IP_CT_RELATED`: a packet that a connection caused, such as an ICMP error.
    const RELATED: u64 = 1;
    /// `IP_CT_NEW`, the last one of the original direction.
    const NEW: u64 = 2;

    /// The address of the entry; `None` for a packet that is not tracked.
    #[inline(always)]
    pub const fn address(self) -> Option<u64> {
        let address = self.0 & !Self::INFO;
        if address == 0 { None } else { Some(address) }
    }

    #[inline(always)]
    const fn info(self) -> u64 {
        self.0 & Self::INFO
    }
}

/// What a translator recorded about a packet's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// It has no entry for the packet.
    None,
    /// Its entry contradicts the packet.
    Unreadable,
    /// The packet is a reply: its receiver has spoken.
    Reply,
    /// The destination was not translated: the sender asked for the IP itself.
    Direct(Meant),
    /// The client asked for a Service's address.
    Translated(Meant),
}

/// What the sender of a packet asked for.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meant {
    /// The destination before DNAT, with the connection's protocol.
    pub vip: Vip,
    /// The sender before masquerade.
    pub client: Addr,
    /// Host order.
    pub client_port: u16,
    /// The endpoint's port, host order. A later fragment and an ICMP error show none.
    pub endpoint_port: u16,
}

impl Entry {
    /// What the entry records about a packet that leaves, after DNAT.
    #[inline(always)]
    pub fn read(&self, reference: Reference, packet: &Packet) -> Record {
        let Self {
            original, reply, ..
        } = self;
        if original.family == 0 {
            return Record::None;
        }
        if reference.info() > Reference::NEW {
            return Record::Reply;
        }
        let is_v4 = packet.dst.is_v4();
        let family = if is_v4 { AF_INET } else { AF_INET6 };
        let same = original.protocol == packet.protocol || hides_protocol(packet);
        // The error belongs to the connection whose packet it quotes.
        let is_error = !same
            && reference.info() == Reference::RELATED
            && packet.protocol == if is_v4 { ICMP } else { ICMPV6 };
        let endpoint_port = u16::from_be(reply.src_port);
        let agrees = original.family == family
            && reply.family == family
            && reply.protocol == original.protocol
            && (same || is_error)
            && addr(is_v4, reply.src) == packet.dst
            && (!packet.transport.has_ports() || endpoint_port == packet.dst_port);
        if !agrees {
            return Record::Unreadable;
        }
        let meant = original.meant(reply);
        if meant.vip.addr == packet.dst || same && packet.transport == Transport::Other {
            return Record::Direct(meant);
        }
        Record::Translated(meant)
    }
}

impl Tuple {
    /// What the sender of packets in this direction asks for. `back`: the other direction.
    #[inline(always)]
    fn meant(&self, back: &Self) -> Meant {
        let is_v4 = self.family == AF_INET;
        Meant {
            vip: Vip {
                addr: addr(is_v4, self.dst),
                port: u16::from_be(self.dst_port),
                protocol: self.protocol,
                reserved: 0,
            },
            client: addr(is_v4, self.src),
            client_port: u16::from_be(self.src_port),
            endpoint_port: u16::from_be(back.src_port),
        }
    }
}

/// Whether it is a fragment that shows an extension header's number in place of its protocol, as of
/// a datagram with destination options (RFC 8200 section 4.5).
#[inline(always)]
fn hides_protocol(packet: &Packet) -> bool {
    packet.transport == Transport::Fragment
        && !packet.dst.is_v4()
        && Extension::from_number(packet.protocol).is_some()
}

#[inline(always)]
fn addr(is_v4: bool, words: [u32; 4]) -> Addr {
    if is_v4 {
        Addr::from_v4_word(words[0])
    } else {
        Addr::from_words(words)
    }
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

#[cfg(test)]
#[path = "conntrack_tests.rs"]
mod tests;

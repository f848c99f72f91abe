//! An skb with its link-layer header: where the programs write.

use crate::skb::Skb;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{
    bpf_csum_diff, bpf_l3_csum_replace, bpf_l4_csum_replace, bpf_skb_load_bytes,
    bpf_skb_store_bytes,
};
use core::mem::MaybeUninit;
use epguard_common::protocol::TCP;
use epguard_common::{ANSWER_MAC, Addr, Bytes as _, Packet};

/// Octets of an Ethernet header.
pub const ETHERNET: u32 = 14;

/// A link-layer address, in transmission order.
#[inline(always)]
pub const fn mac_words(mac: [u8; 6]) -> [u16; 3] {
    let [a0, a1, b0, b1, c0, c1] = mac;
    [
        u16::from_ne_bytes([a0, a1]),
        u16::from_ne_bytes([b0, b1]),
        u16::from_ne_bytes([c0, c1]),
    ]
}

/// An skb, and how many octets lie before its network header.
pub struct Link<'a> {
    pub skb: &'a Skb<'a>,
    pub length: u32,
}

impl<'a> Link<'a> {
    /// Finds out whether the device has Ethernet headers: where there is none, the first octet of
    /// the frame is that of the IP header. Only a test write shows it; the octet is restored
    /// afterwards.
    #[inline(always)]
    pub fn from_skb(skb: &'a Skb<'a>) -> Option<Self> {
        let mut link = Self { skb, length: 0 };
        let [first]: [u8; 1] = link.load(0)?;
        let [network]: [u8; 1] = skb.read(0)?;
        link.store(0, [!first])?;
        let [after]: [u8; 1] = skb.read(0)?;
        link.store(0, [first])?;
        if after == network {
            link.length = ETHERNET;
        }
        Some(link)
    }

    /// Destination and source of the Ethernet header; zero where there is none.
    #[inline(always)]
    pub fn ethernet(&self) -> Option<[u16; 6]> {
        if self.length == 0 {
            Some([0; 6])
        } else {
            self.load(0)
        }
    }

    /// Writes them; nothing where there is no Ethernet header.
    #[inline(always)]
    pub fn set_ethernet(&mut self, ends: [u16; 6]) -> Option<()> {
        if self.length == 0 {
            Some(())
        } else {
            self.store(0, ends)
        }
    }

    /// The Ethernet header of a packet that enters at the interface with this address; without one,
    /// where this packet was leaving. Its source is no holder's. Zero where there is no Ethernet
    /// header.
    #[inline(always)]
    pub fn entering(&self, station: [u16; 3]) -> Option<[u16; 6]> {
        let [_, _, _, s0, s1, s2] = self.ethernet()?;
        let [d0, d1, d2] = if station == [0; 3] {
            [s0, s1, s2]
        } else {
            station
        };
        let [a0, a1, a2] = mac_words(ANSWER_MAC);
        Some(if self.length == 0 {
            [0; 6]
        } else {
            [d0, d1, d2, a0, a1, a2]
        })
    }

    /// Gives an untagged TCP or UDP packet without IPv6 extension headers another destination, or
    /// another source. The checksums follow, complete or left to the device.
    #[inline(always)]
    pub fn readdress(&mut self, packet: &Packet, side: Side, addr: Addr, port: u16) -> Option<()> {
        let is_tcp = packet.protocol == TCP;
        let old = side.addr(packet);
        let old_port = side.port(packet);
        let sum_at = packet.transport_at + if is_tcp { 16 } else { 6 };
        let unused = if is_tcp { 0 } else { BPF_F_MARK_MANGLED_0 };
        let difference = difference(old, addr)?;
        if old.is_v4() {
            let at = self.length + 10;
            // SAFETY: takes the program's own context and numbers. A size of 0 adds a difference.
            let failed =
                unsafe { bpf_l3_csum_replace(self.skb.as_ptr().cast(), at, 0, difference, 0) };
            if failed != 0 {
                return None;
            }
            self.sum(sum_at, 0, difference, BPF_F_PSEUDO_HDR | unused)?;
            let [_, _, _, word] = addr.words();
            self.store(self.length + side.addr_at_v4(), word)?;
        } else {
            // Linux 6.16 needs the flag: no IP checksum changes too. Older kernels refuse it.
            let flags = BPF_F_PSEUDO_HDR | unused;
            self.sum(sum_at, 0, difference, flags | BPF_F_IPV6)
                .or_else(|| self.sum(sum_at, 0, difference, flags))?;
            self.store(self.length + side.addr_at_v6(), addr.words())?;
        }
        if port == old_port {
            return Some(());
        }
        let [from, to] = [old_port, port].map(|port| u64::from(port.to_be()));
        self.sum(sum_at, from, to, unused | 2)?;
        let port_at = self.length + packet.transport_at + side.port_at();
        self.store(port_at, port.to_be())
    }

    #[inline(always)]
    fn sum(&mut self, at: u32, from: u64, to: u64, flags: u64) -> Option<()> {
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe {
            bpf_l4_csum_replace(self.skb.as_ptr().cast(), self.length + at, from, to, flags)
        };
        if failed != 0 {
            return None;
        }
        Some(())
    }

    /// From the start of the frame. `T` is an integer or an array of them: every bit pattern is
    /// one.
    #[inline(always)]
    pub fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper fills all of T or fails; the context is the program's own.
        unsafe {
            let to = value.as_mut_ptr().cast();
            let failed = bpf_skb_load_bytes(self.skb.as_ptr(), offset, to, size_of::<T>() as u32);
            if failed != 0 {
                return None;
            }
            Some(value.assume_init())
        }
    }

    /// As [`Link::load`]. Checksums don't follow.
    #[inline(always)]
    pub fn store<T: Copy>(&mut self, offset: u32, value: T) -> Option<()> {
        let from = (&raw const value).cast();
        // SAFETY: as many octets as T has; the context is the program's own.
        let failed = unsafe {
            bpf_skb_store_bytes(
                self.skb.as_ptr().cast(),
                offset,
                from,
                size_of::<T>() as u32,
                0,
            )
        };
        if failed != 0 {
            return None;
        }
        Some(())
    }
}

/// A side of a packet, and where its address and port lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl Side {
    #[inline(always)]
    const fn addr(self, packet: &Packet) -> Addr {
        match self {
            Self::Source => packet.src,
            Self::Destination => packet.dst,
        }
    }

    #[inline(always)]
    const fn port(self, packet: &Packet) -> u16 {
        match self {
            Self::Source => packet.src_port,
            Self::Destination => packet.dst_port,
        }
    }

    /// In an IPv4 header.
    #[inline(always)]
    const fn addr_at_v4(self) -> u32 {
        match self {
            Self::Source => 12,
            Self::Destination => 16,
        }
    }

    /// In an IPv6 header.
    #[inline(always)]
    const fn addr_at_v6(self) -> u32 {
        match self {
            Self::Source => 8,
            Self::Destination => 24,
        }
    }

    /// In a TCP or UDP header.
    #[inline(always)]
    const fn port_at(self) -> u32 {
        match self {
            Self::Source => 0,
            Self::Destination => 2,
        }
    }
}

const BPF_F_PSEUDO_HDR: u64 = 1 << 4;
/// A UDP checksum of 0 means none, and stays.
const BPF_F_MARK_MANGLED_0: u64 = 1 << 5;
const BPF_F_IPV6: u64 = 1 << 7;

/// The change of a header's checksum. v4-mapped addresses differ in their last word only.
#[inline(always)]
fn difference(old: Addr, new: Addr) -> Option<u64> {
    let mut old = old.words();
    let mut new = new.words();
    // SAFETY: 16 octets each.
    let difference = unsafe { bpf_csum_diff(old.as_mut_ptr(), 16, new.as_mut_ptr(), 16, 0) };
    u64::try_from(difference).ok()
}

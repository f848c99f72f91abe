//! One address type for both families.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address: 16 octets in network order, IPv4 as v4-mapped (`::ffff:a.b.c.d`).
///
/// There is no second path for IPv4: maps, parsers and state speak of `Addr` only.
#[repr(C, align(4))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr {
    /// Network order.
    pub octets: [u8; 16],
}

impl Addr {
    /// The unspecified address; never a destination.
    pub const ZERO: Self = Self { octets: [0; 16] };

    /// From the 4 octets of an IPv4 header, network order.
    #[inline]
    pub const fn v4(o: [u8; 4]) -> Self {
        Self {
            octets: [
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, o[0], o[1], o[2], o[3],
            ],
        }
    }

    /// From the 16 octets of an IPv6 header, network order.
    #[inline]
    pub const fn v6(octets: [u8; 16]) -> Self {
        Self { octets }
    }

    /// From the 4 words of an IPv6 header, or of a v4-mapped address, as they lie in memory. In
    /// words, because the compiler for BPF otherwise carries each octet around in a register of its
    /// own.
    #[inline]
    pub const fn from_words(words: [u32; 4]) -> Self {
        // SAFETY: both are 16 octets without padding, and every bit pattern is an Addr.
        unsafe { core::mem::transmute(words) }
    }

    /// From the word of an IPv4 header, as it lies in memory.
    #[inline]
    pub const fn from_v4_word(word: u32) -> Self {
        Self::from_words([0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), word])
    }

    /// The words of an address, as they lie in memory; of an IPv4 address the last one.
    #[inline]
    pub const fn words(self) -> [u32; 4] {
        // SAFETY: both are 16 octets without padding, and every bit pattern is four words.
        unsafe { core::mem::transmute(self) }
    }

    /// Whether this is a v4-mapped address.
    #[inline]
    pub const fn is_v4(self) -> bool {
        let [a, b, c, _] = self.words();
        a == 0 && b == 0 && c == u32::from_ne_bytes([0, 0, 0xff, 0xff])
    }

    /// The address as people write it; v4-mapped ones as IPv4.
    pub const fn ip(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_octets(self.octets)).to_canonical()
    }

    /// Whether this is the address of one host that others can reach: not unspecified, loopback,
    /// multicast, broadcast or reserved. In words, for the programs.
    #[inline]
    pub const fn is_one_host(self) -> bool {
        let [a, b, c, d] = self.words();
        let first = a.to_ne_bytes()[0];
        if !self.is_v4() {
            return first != 0xff && (a | b | c != 0 || u32::from_be(d) > 1);
        }
        let first = d.to_ne_bytes()[0];
        first != 0 && first != 127 && first < 224
    }

    /// Whether this can be the address of a pod, a node or a Service.
    pub const fn is_unicast(self) -> bool {
        let ip = self.ip();
        !(ip.is_unspecified() || ip.is_multicast())
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::v4(ip.octets()),
            IpAddr::V6(ip) => Self::v6(ip.octets()),
        }
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(ip: Ipv4Addr) -> Self {
        Self::v4(ip.octets())
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn an_ipv4_address_is_v4_mapped_and_reads_back_as_ipv4() {
        let addr = Addr::from("10.244.1.10".parse::<IpAddr>().unwrap());
        assert_eq!(
            addr.octets[..12],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
        );
        assert_eq!(addr, Addr::v4([10, 244, 1, 10]));
        assert_eq!(addr.to_string(), "10.244.1.10");
        assert_eq!(
            addr,
            Addr::from("::ffff:10.244.1.10".parse::<IpAddr>().unwrap())
        );
    }

    #[test]
    fn only_reachable_unicast_addresses_are_one_host() {
        let parse = |text: &str| Addr::from(text.parse::<IpAddr>().unwrap());
        for text in [
            "10.244.1.10",
            "192.168.0.255",
            "223.255.255.255",
            "fd00::1",
            "fe80::1",
            "1::",
        ] {
            assert!(parse(text).is_one_host(), "{text}");
        }
        let others = "0.0.0.0 0.1.2.3 127.0.0.1 127.255.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ff02::1";
        for text in others.split(' ') {
            assert!(!parse(text).is_one_host(), "{text}");
        }
    }

    #[test]
    fn unspecified_and_multicast_addresses_are_not_unicast() {
        assert!(!Addr::ZERO.is_unicast());
        assert!(!Addr::v4([0, 0, 0, 0]).is_unicast());
        assert!(!Addr::v4([224, 0, 0, 1]).is_unicast());
        assert!(Addr::v4([10, 0, 0, 1]).is_unicast());
    }
}

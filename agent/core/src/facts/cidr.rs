//! Ranges of IPs.

use epguard_common::Addr;
use std::fmt;
use std::net::IpAddr;

/// An IP range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The lowest address.
    pub first: Addr,
    /// The highest address.
    pub last: Addr,
}

impl Cidr {
    /// All addresses of each family.
    pub const ALL: [Self; 2] = [
        Self {
            first: Addr::v4([0; 4]),
            last: Addr::v4([0xff; 4]),
        },
        Self {
            first: Addr::v6([0; 16]),
            last: Addr::v6([0xff; 16]),
        },
    ];

    /// One address.
    pub const fn of(addr: Addr) -> Self {
        Self {
            first: addr,
            last: addr,
        }
    }

    /// Reads `10.244.1.0/24` or `fd00::/64`.
    pub fn parse(text: &str) -> Option<Self> {
        let (ip, bits) = text.split_once('/')?;
        Self::new(ip.parse().ok()?, bits.parse().ok()?)
    }

    /// The addresses that share so many first bits with this one. `None` for more bits than it has.
    pub fn new(ip: IpAddr, bits: u32) -> Option<Self> {
        // Of the v4-mapped address.
        let bits = bits.checked_add(if ip.is_ipv4() { 96 } else { 0 })?;
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let base = u128::from_be_bytes(Addr::from(ip).octets);
        let [first, last] = [base & !rest, base | rest].map(|of| Addr {
            octets: of.to_be_bytes(),
        });
        (bits <= 128).then_some(Self { first, last })
    }

    /// True if the address lies in the range. An IPv6 range contains no IPv4 address, though those
    /// are stored as v4-mapped.
    pub fn contains(&self, addr: Addr) -> bool {
        self.is_v4() == addr.is_v4() && (self.first..=self.last).contains(&addr)
    }

    /// True if the other range lies in this one, or is the same.
    pub fn covers(&self, other: Self) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }

    /// True for a range of IPv4.
    pub fn is_v4(&self) -> bool {
        self.first.is_v4() && self.last.is_v4()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differing =
            u128::from_be_bytes(self.first.octets) ^ u128::from_be_bytes(self.last.octets);
        let bits = differing.leading_zeros() - if self.is_v4() { 96 } else { 0 };
        write!(f, "{}/{bits}", self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::json::addr;

    #[test]
    fn a_range_contains_the_addresses_of_its_own_family_in_it_and_none_with_an_invalid_length_is_read()
     {
        for (range, contained, others) in [
            (
                "10.244.1.0/24",
                &["10.244.1.255"][..],
                &["10.244.2.0", "fd00::1"][..],
            ),
            (
                "fd00:10:244:1::/64",
                &["fd00:10:244:1::a"],
                &["fd00:10:244:2::a"],
            ),
            ("::/0", &["fd00::1"], &["10.244.1.1"]),
            ("0.0.0.0/0", &["10.244.1.1"], &["fd00::1"]),
            // Written as v4-mapped, and no longer only v4.
            ("::ffff:10.244.0.0/112", &["10.244.1.1"], &["fd00::1"]),
            ("::ffff:0.0.0.0/90", &[], &["10.244.1.1", "fd00::1"]),
        ] {
            let parsed = Cidr::parse(range).unwrap();
            let contains = |text: &&str| parsed.contains(addr(text).unwrap());
            assert!(
                contained.iter().all(contains) && !others.iter().any(contains),
                "{range}"
            );
        }
        for text in ["10.244.1.0/24", "fd00:10:244:1::/64"] {
            assert_eq!(Cidr::parse(text).unwrap().to_string(), text);
        }
        for text in ["10.0.0.0/33", "fd00::/129", "10.0.0.0"] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }
}

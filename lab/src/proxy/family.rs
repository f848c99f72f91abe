//! Names and marks that the rules of IPv4 and IPv6 share.

use std::net::{IpAddr, SocketAddr};

/// kube-proxy's mark for packets to masquerade.
pub(super) const MASQUERADE: &str = "0x4000";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn name(self) -> &'static str {
        if self == Self::V4 { "ip" } else { "ip6" }
    }

    pub(super) fn address(self) -> &'static str {
        if self == Self::V4 { "ipv4_addr" } else { "ipv6_addr" }
    }

    pub(super) fn loopback(self) -> &'static str {
        if self == Self::V4 { "127.0.0.0/8" } else { "::1" }
    }

    pub(super) fn is(self, ipv6: bool) -> bool {
        ipv6 == (self == Self::V6)
    }

    pub(super) fn own(self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let own = addresses.iter().filter(|to| self.is(to.is_ipv6()));
        own.copied().collect()
    }
}

/// An address as it appears in names of chains.
pub(super) fn in_names(ip: IpAddr) -> String {
    ip.to_string().replace(':', ".")
}

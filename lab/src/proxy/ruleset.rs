//! Services as an nftables script: tables, chains, maps and names are those of kube-proxy 1.36 in
//! nftables mode.
//!
//! Two things differ. `numgen` counts instead of drawing random numbers, so that a story is the
//! same each time. TCP is refused by a reset: Linux 6.18 ignores the `ICMPv6` error in reply to a
//! SYN over veth.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::chains::{Chains, Elements};
use super::{ProxyOptions, ServiceRule};

/// kube-proxy's mark for packets to masquerade.
pub(super) const MASQUERADE: &str = "0x4000";

/// An IP family in the words of nftables.
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
        if self == Self::V4 {
            "ipv4_addr"
        } else {
            "ipv6_addr"
        }
    }

    pub(super) fn loopback(self) -> &'static str {
        if self == Self::V4 {
            "127.0.0.0/8"
        } else {
            "::1"
        }
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

/// A script that replaces all rules in one transaction. Tables and base chains stay, so that NAT is
/// never unhooked. Chains of removed Services stay too, empty and without a jump to them, as
/// kube-proxy keeps them for a while.
pub(super) fn script(services: &[ServiceRule], options: ProxyOptions) -> String {
    [Family::V4, Family::V6]
        .map(|family| table(family, services, options))
        .concat()
}

/// All but the Services' own chains and elements.
const BASE: &str = include_str!("kube-proxy.nft");

fn table(family: Family, services: &[ServiceRule], options: ProxyOptions) -> String {
    let ip = family.name();
    let mut chains = Chains::new(family);
    for service in services {
        chains.add(service);
    }
    let Chains {
        declared,
        rules,
        elements,
        ..
    } = chains;
    let base: String = BASE
        .split_inclusive('\n')
        .filter(|line| options.masquerade_all || !line.contains("masquerade all clusterIP traffic"))
        .collect();
    let base = base
        .replace("$ip", ip)
        .replace("$address", family.address())
        .replace("$loopback", family.loopback());
    [base, declared, rules, filled(ip, &elements)].concat()
}

fn filled(ip: &str, elements: &Elements) -> String {
    let mut commands = String::new();
    for (set, elements) in elements {
        let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
        let elements = elements.join(", ");
        let _ = writeln!(
            commands,
            "add element {ip} kube-proxy {set} {{ {elements} }}"
        );
    }
    commands
}

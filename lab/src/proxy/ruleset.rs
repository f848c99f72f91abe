//! Services as an nftables script: tables, chains, maps and names are those of kube-proxy 1.36 in nftables mode.
//!
//! Two things differ. `numgen` counts instead of drawing random numbers, so that a story is the same each time. TCP is
//! refused by a reset: Linux 6.18 ignores the `ICMPv6` error in reply to a SYN over veth.

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

/// A script that replaces all rules in one transaction. Tables and base chains stay, so that NAT is never unhooked. Chains
/// of removed Services stay too, empty and without a jump to them, as kube-proxy keeps them for a while.
pub(super) fn script(services: &[ServiceRule], options: ProxyOptions) -> String {
    [Family::V4, Family::V6].map(|family| table(family, services, options)).concat()
}

fn table(family: Family, services: &[ServiceRule], options: ProxyOptions) -> String {
    let (ip, address, loopback) = (family.name(), family.address(), family.loopback());
    let mut chains = Chains::new(family);
    for service in services {
        chains.add(service);
    }
    let Chains { declared, rules, elements, .. } = chains;
    let local = format!("fib daddr type local {ip} daddr != {loopback}");
    let masquerade_all = if options.masquerade_all {
        format!(
            "add rule {ip} kube-proxy services {ip} daddr @cluster-ips meta mark set meta mark | {MASQUERADE} comment \
             \"masquerade all clusterIP traffic\"\n"
        )
    } else {
        String::new()
    };
    format!(
        "add table {ip} kube-proxy {{ comment \"rules for kube-proxy\" ; }}
add chain {ip} kube-proxy filter-prerouting-pre-dnat {{ type filter hook prerouting priority -110 ; }}
add chain {ip} kube-proxy filter-output-pre-dnat {{ type filter hook output priority -110 ; }}
add chain {ip} kube-proxy filter-input {{ type filter hook input priority 0 ; }}
add chain {ip} kube-proxy filter-forward {{ type filter hook forward priority 0 ; }}
add chain {ip} kube-proxy filter-output {{ type filter hook output priority 0 ; }}
add chain {ip} kube-proxy nat-prerouting {{ type nat hook prerouting priority -100 ; }}
add chain {ip} kube-proxy nat-output {{ type nat hook output priority -100 ; }}
add chain {ip} kube-proxy nat-postrouting {{ type nat hook postrouting priority 100 ; }}
add chain {ip} kube-proxy services
add chain {ip} kube-proxy masquerading
add chain {ip} kube-proxy firewall-check
add chain {ip} kube-proxy service-endpoints-check
add chain {ip} kube-proxy nodeport-endpoints-check
add chain {ip} kube-proxy cluster-ips-check
add chain {ip} kube-proxy reject-chain {{ comment \"helper for @no-endpoint-services / @no-endpoint-nodeports\" ; }}
flush table {ip} kube-proxy
add set {ip} kube-proxy cluster-ips {{ type {address} ; comment \"Active ClusterIPs\" ; }}
add set {ip} kube-proxy hairpin-connections {{ type {address} . {address} . inet_proto . inet_service ; comment \"service hairpin connections\" ; }}
add map {ip} kube-proxy firewall-ips {{ type {address} . inet_proto . inet_service : verdict ; comment \"destinations that are subject to LoadBalancerSourceRanges\" ; }}
add map {ip} kube-proxy no-endpoint-services {{ type {address} . inet_proto . inet_service : verdict ; comment \"vmap to drop or reject packets to services with no endpoints\" ; }}
add map {ip} kube-proxy no-endpoint-nodeports {{ type inet_proto . inet_service : verdict ; comment \"vmap to drop or reject packets to service nodeports with no endpoints\" ; }}
add map {ip} kube-proxy service-ips {{ type {address} . inet_proto . inet_service : verdict ; comment \"ClusterIP, ExternalIP and LoadBalancer IP traffic\" ; }}
add map {ip} kube-proxy service-nodeports {{ type inet_proto . inet_service : verdict ; comment \"NodePort traffic\" ; }}
flush set {ip} kube-proxy cluster-ips
flush set {ip} kube-proxy hairpin-connections
flush map {ip} kube-proxy no-endpoint-services
flush map {ip} kube-proxy no-endpoint-nodeports
flush map {ip} kube-proxy service-ips
flush map {ip} kube-proxy service-nodeports
add rule {ip} kube-proxy filter-prerouting-pre-dnat ct state new jump firewall-check
add rule {ip} kube-proxy filter-output-pre-dnat ct state new jump firewall-check
add rule {ip} kube-proxy filter-input ct state new jump nodeport-endpoints-check
add rule {ip} kube-proxy filter-input ct state new jump service-endpoints-check
add rule {ip} kube-proxy filter-forward ct state new jump service-endpoints-check
add rule {ip} kube-proxy filter-forward ct state new jump cluster-ips-check
add rule {ip} kube-proxy filter-output ct state new jump service-endpoints-check
add rule {ip} kube-proxy filter-output ct state new jump nodeport-endpoints-check
add rule {ip} kube-proxy filter-output ct state new jump cluster-ips-check
add rule {ip} kube-proxy nat-prerouting jump services
add rule {ip} kube-proxy nat-output jump services
add rule {ip} kube-proxy nat-postrouting jump masquerading
add rule {ip} kube-proxy masquerading meta mark & {MASQUERADE} != 0 meta mark set meta mark ^ {MASQUERADE} masquerade fully-random
add rule {ip} kube-proxy masquerading ct status dnat {ip} saddr . {ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
add rule {ip} kube-proxy firewall-check {ip} daddr . meta l4proto . th dport vmap @firewall-ips
add rule {ip} kube-proxy service-endpoints-check {ip} daddr . meta l4proto . th dport vmap @no-endpoint-services
add rule {ip} kube-proxy nodeport-endpoints-check {local} meta l4proto . th dport vmap @no-endpoint-nodeports
add rule {ip} kube-proxy reject-chain meta l4proto tcp reject with tcp reset
add rule {ip} kube-proxy reject-chain reject
add rule {ip} kube-proxy cluster-ips-check {ip} daddr @cluster-ips goto reject-chain comment \"Reject traffic to invalid ports of ClusterIPs\"
{masquerade_all}add rule {ip} kube-proxy services {ip} daddr . meta l4proto . th dport vmap @service-ips
add rule {ip} kube-proxy services {local} meta l4proto . th dport vmap @service-nodeports
{declared}{rules}{}",
        filled(ip, &elements)
    )
}

fn filled(ip: &str, elements: &Elements) -> String {
    let add = |(set, elements): (&&str, &std::collections::BTreeSet<String>)| {
        let elements = elements.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("add element {ip} kube-proxy {set} {{ {elements} }}\n")
    };
    elements.iter().map(add).collect()
}

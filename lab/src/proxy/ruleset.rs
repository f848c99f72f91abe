//! Services as an nftables script, with the chains and the mark of kube-proxy's nftables mode.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::{Frontend, Protocol, ProxyOptions, ServiceRule};

/// kube-proxy's mark for packets to masquerade.
const MASQUERADE: &str = "0x4000";

/// A script that replaces all rules in one transaction. Tables and chains stay, so that NAT is never unhooked.
pub(super) fn script(services: &[ServiceRule], options: ProxyOptions) -> String {
    [Family::V4, Family::V6]
        .map(|family| table(family, services, options))
        .concat()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn name(self) -> &'static str {
        if self == Self::V4 { "ip" } else { "ip6" }
    }

    fn loopback(self) -> &'static str {
        if self == Self::V4 { "127.0.0.0/8" } else { "::1" }
    }

    fn is(self, ipv6: bool) -> bool {
        ipv6 == (self == Self::V6)
    }
}

fn table(family: Family, services: &[ServiceRule], options: ProxyOptions) -> String {
    let ip = family.name();
    let mut hairpin = Vec::new();
    let mut rules = String::new();
    for service in services {
        let backends: Vec<_> = service
            .backends
            .iter()
            .copied()
            .filter(|to| family.is(to.is_ipv6()))
            .collect();
        hairpin.extend(backends.iter().map(SocketAddr::ip));
        for frontend in service
            .frontends
            .iter()
            .filter(|frontend| family.is(frontend.is_ipv6()))
        {
            rules += &rule(family, service, frontend, &backends, options);
        }
    }
    hairpin.sort_unstable();
    hairpin.dedup();
    format!(
        "add table {ip} kube-proxy
add chain {ip} kube-proxy prerouting {{ type nat hook prerouting priority dstnat; }}
add chain {ip} kube-proxy output {{ type nat hook output priority -100; }}
add chain {ip} kube-proxy postrouting {{ type nat hook postrouting priority srcnat; }}
add chain {ip} kube-proxy filter-input {{ type filter hook input priority filter; }}
add chain {ip} kube-proxy filter-forward {{ type filter hook forward priority filter; }}
add chain {ip} kube-proxy filter-output {{ type filter hook output priority filter; }}
add chain {ip} kube-proxy services
add chain {ip} kube-proxy no-endpoints
flush table {ip} kube-proxy
add rule {ip} kube-proxy prerouting jump services
add rule {ip} kube-proxy output jump services
add rule {ip} kube-proxy filter-input ct state new jump no-endpoints
add rule {ip} kube-proxy filter-forward ct state new jump no-endpoints
add rule {ip} kube-proxy filter-output ct state new jump no-endpoints
add rule {ip} kube-proxy postrouting meta mark & {MASQUERADE} != 0 meta mark set meta mark ^ {MASQUERADE} masquerade fully-random
{}{rules}",
        hairpin_rule(ip, &hairpin)
    )
}

/// A pod that reaches itself through its own Service must not see its own address as the source.
fn hairpin_rule(ip: &str, backends: &[IpAddr]) -> String {
    if backends.is_empty() {
        return String::new();
    }
    let pairs = backends
        .iter()
        .map(|backend| format!("{backend} . {backend}"))
        .collect::<Vec<_>>()
        .join(", ");
    let matched = format!("ct status dnat {ip} saddr . {ip} daddr {{ {pairs} }}");
    format!("add rule {ip} kube-proxy postrouting {matched} masquerade fully-random\n")
}

fn rule(
    family: Family,
    service: &ServiceRule,
    frontend: &Frontend,
    backends: &[SocketAddr],
    options: ProxyOptions,
) -> String {
    let (ip, loopback) = (family.name(), family.loopback());
    let (destination, port, external) = match frontend {
        Frontend::ClusterIp(vip) => (format!("{ip} daddr {}", vip.ip()), vip.port(), false),
        Frontend::External(vip) => (format!("{ip} daddr {}", vip.ip()), vip.port(), true),
        Frontend::NodePort { port, .. } => (
            format!("fib daddr type local {ip} daddr != {loopback}"),
            *port,
            true,
        ),
    };
    let protocol = service.protocol.to_string().to_lowercase();
    let matched = format!("{destination} meta l4proto {protocol} th dport {port}");
    if backends.is_empty() {
        // Linux 6.18 ignores the ICMPv6 error that answers a SYN over veth; a reset reaches TCP in both families.
        let with = if service.protocol == Protocol::Tcp {
            "with tcp reset"
        } else {
            ""
        };
        return format!("add rule {ip} kube-proxy no-endpoints {matched} reject {with}\n");
    }
    let mut rule = format!("add rule {ip} kube-proxy services {matched} ");
    if external || options.masquerade_all {
        let _ = write!(rule, "meta mark set meta mark | {MASQUERADE} ");
    }
    let choices = backends
        .iter()
        .enumerate()
        .map(|(index, to)| format!("{index} : {} . {}", to.ip(), to.port()));
    let choices = choices.collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        rule,
        "dnat to numgen inc mod {} map {{ {choices} }} comment \"{}\"",
        backends.len(),
        comment(&service.name)
    );
    rule
}

/// kube-proxy's iptables mode names each endpoint's Service so. nft takes at most 128 octets, without quotes.
fn comment(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-./:".contains(*c);
    name.chars().filter(plain).take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(frontend: Frontend, backends: &[&str]) -> ServiceRule {
        ServiceRule {
            name: "shop/a:http".to_owned(),
            protocol: Protocol::Tcp,
            frontends: vec![frontend],
            backends: backends.iter().map(|to| to.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_cluster_ip_goes_to_the_backends_of_its_own_family() {
        let vip = Frontend::ClusterIp("[fd00:10:96::a]:80".parse().unwrap());
        let script = script(
            &[service(vip, &["10.244.1.2:8080", "[fd00::2]:8080"])],
            ProxyOptions::default(),
        );
        let expected = "add rule ip6 kube-proxy services ip6 daddr fd00:10:96::a meta l4proto tcp th dport 80 \
                        dnat to numgen inc mod 1 map { 0 : fd00::2 . 8080 } comment \"shop/a:http\"\n";
        assert!(script.contains(expected), "{script}");
        assert!(!script.contains("10.244.1.2 . 8080"), "{script}");
    }

    #[test]
    fn a_service_without_backends_is_rejected() {
        let vip = Frontend::ClusterIp("10.96.0.10:80".parse().unwrap());
        let script = script(&[service(vip, &[])], ProxyOptions::default());
        assert!(
            script.contains(
                "no-endpoints ip daddr 10.96.0.10 meta l4proto tcp th dport 80 reject with tcp reset\n"
            ),
            "{script}"
        );
    }

    #[test]
    fn a_node_port_is_masqueraded_and_a_cluster_ip_only_on_request() {
        let marked = |frontend, masquerade_all| {
            let services = [service(frontend, &["10.244.1.2:8080"])];
            script(&services, ProxyOptions { masquerade_all })
                .contains("meta mark set meta mark | 0x4000 dnat")
        };
        let vip = Frontend::ClusterIp("10.96.0.10:80".parse().unwrap());
        let port = Frontend::NodePort {
            family: "10.96.0.10".parse().unwrap(),
            port: 30080,
        };
        assert_eq!(
            [marked(port, false), marked(vip, false), marked(vip, true)],
            [true, false, true]
        );
    }
}

//! What people use without epguard: packet filters with the same addresses, each at the earliest place that it has.

use super::bed::Bed;
use super::stale;
use epguard_lab::net::NetNs;
use epguard_lab::process::{cause, with_input};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// A packet filter that drops all packets to the stale IPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// nftables, a set in prerouting, before conntrack.
    Nftables,
    /// nftables, a set at the ingress hook of each device, before the IP stack.
    NftablesNetdev,
    /// iptables, an ipset in prerouting, before conntrack.
    Ipset,
    /// nftables, a set behind DNAT, where a Service's endpoint can be seen. It drops the packets of all Services.
    NftablesForward,
}

impl Filter {
    /// Adds its rules, without the counters that cost time, with addresses besides the stale IPs.
    pub(crate) fn add(self, bed: &Bed, more: &[Ipv4Addr]) {
        let mut addresses = stale::all();
        addresses.extend(more);
        let elements: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
        let elements = elements.join(", ");
        let set = format!("set stale {{ type ipv4_addr; elements = {{ {elements} }} }}");
        let chain = |hook: &str| {
            format!(
                "table ip stale {{ {set}; chain drops {{ type filter hook {hook}; ip daddr @stale drop; }}; }}"
            )
        };
        match self {
            Self::Nftables => input(bed.node(), "nft", &["-f", "-"], &chain("prerouting priority raw")),
            Self::NftablesForward => {
                input(bed.node(), "nft", &["-f", "-"], &chain("forward priority filter"));
            }
            Self::NftablesNetdev => {
                let devices = bed.interfaces().join(", ");
                let table = format!(
                    "table netdev stale {{ {set}; chain drops {{ type filter hook ingress devices = {{ {devices} }} \
                     priority 0; ip daddr @stale drop; }}; }}"
                );
                input(bed.node(), "nft", &["-f", "-"], &table);
            }
            Self::Ipset => {
                let mut sets = "create stale hash:ip\n".to_owned();
                for address in addresses {
                    writeln!(sets, "add stale {address}").unwrap();
                }
                input(bed.node(), "ipset", &["restore"], &sets);
                iptables(bed, "-A");
            }
        }
    }

    pub(crate) fn remove(self, bed: &Bed) {
        match self {
            Self::Nftables | Self::NftablesForward => bed.run("nft", &["delete", "table", "ip", "stale"]),
            Self::NftablesNetdev => bed.run("nft", &["delete", "table", "netdev", "stale"]),
            Self::Ipset => {
                iptables(bed, "-D");
                bed.run("ipset", &["destroy", "stale"]);
            }
        }
    }
}

fn iptables(bed: &Bed, what: &str) {
    let rule = "-w -t raw WHAT PREROUTING -m set --match-set stale dst -j DROP".replace("WHAT", what);
    bed.run("iptables", &rule.split(' ').collect::<Vec<_>>());
}

fn input(node: &NetNs, program: &str, arguments: &[&str], input: &str) {
    let package = if program == "nft" { "nftables" } else { program };
    let output = with_input(node.command(program).args(arguments), input, package).unwrap();
    assert!(output.status.success(), "{program}: {}: {input}", cause(&output));
}

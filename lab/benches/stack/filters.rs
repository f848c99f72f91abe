//! The stale IPs: 1,000 orphan IPs, and 1,000 suspects behind 20 Services. The measured traffic
//! uses none of them. And what people use without epguard: packet filters with the same addresses,
//! each at the earliest place that it has.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use epguard_common::{Addr, Gate, Gates, Mode, ServiceNumber, Uid};
use epguard_core::state::{OrphanIp, Tables};
use epguard_lab::net::NetNs;
use epguard_lab::process::{cause, with_input};
use epguard_lab::programs;

use super::bed::{Bed, REUSED, STALE_SERVICE};

/// A packet filter that drops all packets to the stale IPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// nftables, a set in prerouting, before conntrack.
    Nftables,
    /// nftables, a set at the ingress hook of each device, before the IP stack.
    NftablesNetdev,
    /// iptables, an ipset in prerouting, before conntrack.
    Ipset,
    /// nftables, a set behind DNAT, where a Service's endpoint can be seen. It drops the packets of
    /// all Services.
    NftablesForward,
}

impl Filter {
    /// Adds its rules, without the counters that cost time.
    pub(crate) fn add(self, bed: &Bed) {
        let mut addresses = all();
        addresses.extend((self == Self::NftablesForward).then_some(*REUSED.ip()));
        let elements: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
        let elements = elements.join(", ");
        let nft = |family: &str, hook: &str| {
            let table = format!(
                "table {family} stale {{ set stale {{ type ipv4_addr; elements = {{ {elements} }} }}; \
                 chain drops {{ type filter hook {hook}; ip daddr @stale drop; }}; }}"
            );
            input(bed.node(), "nft", &["-f", "-"], &table);
        };
        match self {
            Self::Nftables => nft("ip", "prerouting priority raw"),
            Self::NftablesForward => nft("ip", "forward priority filter"),
            Self::NftablesNetdev => {
                let devices = bed.interfaces().join(", ");
                nft(
                    "netdev",
                    &format!("ingress devices = {{ {devices} }} priority 0"),
                );
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
            Self::Nftables | Self::NftablesForward => {
                bed.run("nft", &["delete", "table", "ip", "stale"]);
            }
            Self::NftablesNetdev => bed.run("nft", &["delete", "table", "netdev", "stale"]),
            Self::Ipset => {
                iptables(bed, "-D");
                bed.run("ipset", &["destroy", "stale"]);
            }
        }
    }
}

fn iptables(bed: &Bed, what: &str) {
    let rule =
        "-w -t raw WHAT PREROUTING -m set --match-set stale dst -j DROP".replace("WHAT", what);
    bed.run("iptables", &rule.split(' ').collect::<Vec<_>>());
}

fn input(node: &NetNs, program: &str, arguments: &[&str], input: &str) {
    let package = if program == "nft" {
        "nftables"
    } else {
        program
    };
    let output = with_input(node.command(program).args(arguments), input, package).unwrap();
    assert!(
        output.status.success(),
        "{program}: {}: {input}",
        cause(&output)
    );
}

/// An unused IP of the node, whose last pod is dead: packets to it leave by the default route.
pub(crate) fn orphan(number: u16) -> Ipv4Addr {
    let [high, low] = (number % 1_000).to_be_bytes();
    Ipv4Addr::new(10, 245, high, low)
}

/// An IP on another node, which a Service still lists for a dead pod.
fn suspect(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 246, high, low)
}

/// All of them, for packet filters.
pub(crate) fn all() -> Vec<Ipv4Addr> {
    (0..1_000)
        .flat_map(|number| [orphan(number), suspect(number)])
        .collect()
}

/// The same addresses, and the reused one, for epguard.
pub(crate) fn denied() -> Tables {
    let mut tables = Tables::default();
    for number in 0..1_000 {
        let orphan_ip = OrphanIp {
            dead: Uid { octets: [7; 16] },
            mode: Mode::Enforce,
            range: addr(orphan(0)),
            lifted: None,
        };
        tables.terminated.insert(addr(orphan(number)), orphan_ip);
        let [_, of] = (number % 20).to_be_bytes();
        let service = ServiceNumber {
            number: 1 + u32::from(of),
        };
        programs::number(
            &mut tables,
            service,
            SocketAddr::from(([10, 96, 1, of], 80)),
        );
        programs::deny(
            &mut tables,
            service,
            SocketAddr::from((suspect(number), 8080)),
        );
    }
    let service = ServiceNumber { number: 21 };
    programs::number(&mut tables, service, STALE_SERVICE.into());
    programs::deny(&mut tables, service, REUSED.into());
    tables
}

/// Whether the gate of [`denied`] also sends packets of this address to the full programs. One
/// address in sixty shares its buckets with orphan IPs.
pub(crate) fn shares_bucket(ip: Ipv4Addr) -> bool {
    let mut gates = Gates::EMPTY;
    for stale in all() {
        gates.add(addr(stale), Gate::TERMINATED);
    }
    gates.flags_at(addr(ip)) != 0
}

fn addr(ip: Ipv4Addr) -> Addr {
    Addr::v4(ip.octets())
}

//! The effect of a rule of nftables, as far as it sends packets elsewhere (`linux/netfilter/nf_tables.h`): its `nat`
//! expression, and the `DNAT` target that iptables-nft puts there instead.

use super::netfilter::{address, at, attributes, number, string};
use super::registers::Registers;
use super::xt;
use epguard_core::facts::Protocol;
use std::net::SocketAddr;

/// `NFTA_EXPR_NAME`, and of `NFTA_EXPR_DATA`, which each kind of expression fills in its own way.
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFT_META_L4PROTO: u64 = 16;
const NFT_CMP_EQ: u64 = 0;
const NFT_NAT_DNAT: u64 = 1;
const NFPROTO_IPV6: u64 = 10;

/// What the expressions of a rule do together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// The transport that the rule matches, if it matches one.
    pub protocol: Option<Protocol>,
    /// Packets that its counter has counted.
    pub packets: Option<u64>,
    /// The comment that iptables-nft has added to it.
    pub comment: Option<String>,
    /// The destination that it sends packets to.
    pub leads: Option<Leads>,
}

/// The destination of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leads {
    /// To this address.
    To(SocketAddr),
    /// To the addresses in the elements of a map.
    By(Map),
}

/// A map whose elements are loaded before the destination is read from the registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Its name in the rule's table.
    pub set: String,
    register: u64,
    registers: Registers,
    nat: Nat,
}

/// Which registers have the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nat {
    v6: bool,
    address: u64,
    port: u64,
}

impl Map {
    /// The address that packets go to whose element has this value.
    pub fn target(&self, value: &[u8]) -> Option<SocketAddr> {
        let mut registers = self.registers.clone();
        registers.load(self.register, value);
        self.nat.target(&registers)
    }
}

impl Nat {
    fn target(self, registers: &Registers) -> Option<SocketAddr> {
        let octets = registers.read(self.address, if self.v6 { 16 } else { 4 })?;
        let port = registers.read(self.port, 2)?.try_into().ok()?;
        Some(SocketAddr::new(address(&octets)?, u16::from_be_bytes(port)))
    }
}

/// Follows the expressions of a rule, in their order. The effect leads nowhere unless one sends packets elsewhere.
/// `v6`: true if the rule is in a table of IPv6 alone.
pub fn effect(v6: bool, expressions: &[u8]) -> Effect {
    let mut effect = Effect::default();
    let mut registers = Registers::default();
    let (mut transport, mut map) = (None, None);
    for (_, expression) in attributes(expressions) {
        let Some(name) = string(expression, &[NFTA_EXPR_NAME]) else {
            continue;
        };
        let data = at(expression, &[NFTA_EXPR_DATA]).unwrap_or_default();
        let of = |kind: u16| number(data, &[kind]);
        // Any other expression in between may load another value.
        let loaded = transport.take();
        match name.as_str() {
            // DREG, KEY
            "meta" if of(2) == Some(NFT_META_L4PROTO) => transport = of(1),
            // SREG, OP, DATA
            "cmp" if loaded.is_some() && of(1) == loaded && of(2) == Some(NFT_CMP_EQ) => {
                let value = number(data, &[3, 1]).and_then(|value| u8::try_from(value).ok());
                effect.protocol = value.and_then(Protocol::from_number);
            }
            // BYTES, PACKETS
            "counter" => effect.packets = of(2),
            // NAME, REV, INFO: struct xt_comment_info
            "match" if string(data, &[1]).as_deref() == Some("comment") => {
                effect.comment = string(data, &[3]);
            }
            "target" if string(data, &[1]).as_deref() == Some("DNAT") => {
                let info = at(data, &[3]).unwrap_or_default();
                effect.leads = xt::dnat(v6, of(2).unwrap_or_default(), info).map(Leads::To);
            }
            // DREG, DATA
            "immediate" => {
                registers.load(of(1).unwrap_or_default(), at(data, &[2, 1]).unwrap_or_default());
            }
            // SET, SREG, DREG
            "lookup" => {
                registers.forget(of(3).unwrap_or_default());
                map = string(data, &[1]).zip(of(3)).or(map);
            }
            // TYPE, FAMILY, REG_ADDR_MIN, _MAX, REG_PROTO_MIN
            "nat" if of(1) == Some(NFT_NAT_DNAT) => {
                let nat = of(3).zip(of(5)).map(|(address, port)| Nat {
                    v6: of(2) == Some(NFPROTO_IPV6),
                    address,
                    port,
                });
                effect.leads = nat.and_then(|nat| leads(nat, &registers, map.take()));
            }
            _ => {}
        }
    }
    effect
}

fn leads(nat: Nat, registers: &Registers, map: Option<(String, u64)>) -> Option<Leads> {
    let by = |(set, register)| Map {
        set,
        register,
        registers: registers.clone(),
        nat,
    };
    let fixed = nat.target(registers).map(Leads::To);
    fixed.or_else(|| map.map(by).map(Leads::By))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expression, nested, number};
    use super::*;
    use proptest::prelude::*;

    /// `meta l4proto tcp counter packets 5`
    fn tcp_counted() -> Vec<u8> {
        let meta = [number(1, 1), number(2, 16)].concat();
        let cmp = [number(1, 1), number(2, 0), nested(3, &nested(1, &[6]))].concat();
        let counter = [nested(1, &[0; 8]), nested(2, &5_u64.to_be_bytes())].concat();
        [
            expression("meta", &meta),
            expression("cmp", &cmp),
            expression("counter", &counter),
        ]
        .concat()
    }

    fn immediate(register: u32, value: &[u8]) -> Vec<u8> {
        let data = nested(2, &nested(1, value));
        expression("immediate", &[number(1, register), data].concat())
    }

    fn dnat(family: u32, address: u32, port: u32) -> Vec<u8> {
        let registers = [number(3, address), number(5, port)].concat();
        expression("nat", &[number(1, 1), number(2, family), registers].concat())
    }

    fn leads_to(expressions: &[Vec<u8>]) -> Option<String> {
        match effect(false, &expressions.concat()).leads? {
            Leads::To(target) => Some(target.to_string()),
            Leads::By(map) => panic!("{map:?}"),
        }
    }

    #[test]
    fn the_endpoint_rule_of_kube_proxy_is_read_with_its_counter() {
        let rule = [
            tcp_counted(),
            immediate(1, &[10, 180, 0, 1]),
            immediate(2, &[0, 80]),
            dnat(2, 1, 2),
        ];
        let effect = effect(false, &rule.concat());
        assert_eq!((effect.protocol, effect.packets), (Some(Protocol::Tcp), Some(5)));
        assert_eq!(leads_to(&rule).unwrap(), "10.180.0.1:80");
        let ip = "fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let rule = [immediate(1, &ip), immediate(2, &[0, 80]), dnat(10, 1, 2)];
        assert_eq!(leads_to(&rule).unwrap(), "[fd00::2]:80");
    }

    #[test]
    fn a_map_lookup_leads_to_the_targets_of_its_elements() {
        let lookup = [nested(1, b"__map0\0"), number(2, 1), number(3, 1)].concat();
        let rule = [expression("lookup", &lookup), dnat(2, 1, 9)].concat();
        let Some(Leads::By(map)) = effect(false, &rule).leads else {
            panic!("no map")
        };
        assert_eq!(map.set, "__map0");
        let target = map.target(&[1, 2, 3, 4, 0, 80, 0, 0]).unwrap();
        assert_eq!(target.to_string(), "1.2.3.4:80");
        assert_eq!(
            map.target(&[1, 2, 3, 4]),
            None,
            "without a port it is no endpoint"
        );
    }

    #[test]
    fn a_compared_port_is_no_protocol_and_a_map_of_marks_no_destination() {
        let port = [number(1, 1), number(2, 0), nested(3, &nested(1, &[0, 17]))].concat();
        let mark = [nested(1, b"marks\0"), number(2, 1), number(3, 1)].concat();
        let rule = [
            tcp_counted(),
            expression("payload", &number(1, 1)),
            expression("cmp", &port),
            expression("lookup", &mark),
            immediate(1, &[10, 180, 0, 1]),
            immediate(2, &[0, 80]),
            dnat(2, 1, 2),
        ];
        assert_eq!(effect(false, &rule.concat()).protocol, Some(Protocol::Tcp));
        assert_eq!(leads_to(&rule).unwrap(), "10.180.0.1:80");
    }

    #[test]
    fn a_source_nat_rule_has_no_destination() {
        let snat = [number(1, 0), number(2, 2), number(3, 1), number(5, 2)].concat();
        let rule = [
            tcp_counted(),
            immediate(1, &[1, 2, 3, 4]),
            immediate(2, &[0, 80]),
            expression("nat", &snat),
        ];
        assert_eq!(leads_to(&rule), None);
    }

    proptest! {
        #[test]
        fn a_broken_rule_never_makes_it_panic(cut in 0_usize..400, at in 0_usize..400, octet: u8, register: u32) {
            let rule = [
                tcp_counted(),
                immediate(register, &[10, 180, 0, 1]),
                dnat(2, register, register),
            ];
            let mut rule = rule.concat();
            let at = at % rule.len();
            rule[at] = octet;
            rule.truncate(cut);
            let _ = effect(false, &rule);
        }
    }
}

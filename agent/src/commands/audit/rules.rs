//! Rules of nftables that send packets to endpoints: kube-proxy's in its nftables mode, and with iptables-nft below it
//! in its iptables mode.

use super::expressions::{Effect, Leads, Map, effect};
use super::finding::Kind;
use super::netfilter::{Message, at, attributes, consistent, dump, string, text};
use crate::shared::args;
use epguard_core::facts::Protocol;
use std::io;
use std::net::SocketAddr;

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE`, and `NFT_MSG_GETSETELEM`
const GET_RULE: u16 = 0x0a07;
const GET_ELEMENTS: u16 = 0x0a0d;
const NFPROTO_IPV6: u8 = 10;

/// A rule that sends packets to other addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The mechanism that the rule belongs to.
    pub kind: Kind,
    /// Its family and table, as `nft` writes them.
    pub table: String,
    /// Its chain.
    pub chain: String,
    /// `namespace/name` of the Service, if the chain or a comment names it.
    pub service: Option<String>,
    /// The name of the Service's port there; none if the port has no name.
    pub port: Option<String>,
    /// The transport that it matches; none: any.
    pub protocol: Option<Protocol>,
    /// Packets that it has counted; none if it does not count, or if it is unknown for which target.
    pub packets: Option<u64>,
    /// The addresses that it sends packets to.
    pub targets: Vec<SocketAddr>,
}

/// Reads all rules that send packets to other addresses, in all tables. Errors: the kernel's.
pub fn read() -> anyhow::Result<Vec<Rule>> {
    consistent(attempt)
}

/// Reads them once; none if rules changed meanwhile.
fn attempt() -> io::Result<Option<Vec<Rule>>> {
    let take = |found: &mut Vec<Found>, message: Message<'_>| found.extend(Found::of(message));
    let mut rules = Vec::new();
    for mut found in dump(GET_RULE, 0, &[], take)? {
        if let Some(map) = found.map.take() {
            match found.targets(&map) {
                Ok(Some(targets)) => found.rule.targets = targets,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(None),
            }
        }
        if found.rule.targets.len() > 1 {
            found.rule.packets = None;
        }
        rules.push(found.rule);
    }
    Ok(Some(rules))
}

/// A rule whose targets may still have to be read.
struct Found {
    rule: Rule,
    family: u8,
    generation: u16,
    /// The table's name, and the map in it.
    map: Option<(String, Map)>,
}

impl Found {
    fn of(message: Message<'_>) -> Option<Self> {
        // NFTA_RULE_TABLE, _CHAIN, _EXPRESSIONS, _USERDATA
        let of = |kind: u16| at(message.attributes, &[kind]).unwrap_or_default();
        let Effect {
            protocol,
            packets,
            comment,
            leads,
        } = effect(message.family == NFPROTO_IPV6, of(4));
        let table = string(message.attributes, &[1])?;
        let chain = string(message.attributes, &[2])?;
        let (targets, map) = match leads? {
            Leads::To(target) => (vec![target], None),
            Leads::By(map) => (vec![], Some((table.clone(), map))),
        };
        let comment = comment.or_else(|| noted(of(7)));
        let (service, port) = service(&chain, comment.as_deref()).unzip();
        Some(Self {
            rule: Rule {
                kind: Kind::NftablesRule,
                table: format!("{} {table}", family(message.family)),
                service,
                port: port.flatten(),
                chain,
                protocol,
                packets,
                targets,
            },
            family: message.family,
            generation: message.generation,
            map,
        })
    }

    /// The targets in the map's elements; none if the map is not of the same moment as the rule.
    fn targets(&self, (table, map): &(String, Map)) -> io::Result<Option<Vec<SocketAddr>>> {
        // NFTA_SET_ELEM_LIST_TABLE, _SET, _ELEMENTS
        let which = [text(1, table), text(2, &map.set)].concat();
        let take = |targets: &mut (bool, Vec<SocketAddr>), message: Message<'_>| {
            targets.0 |= message.generation != self.generation;
            let elements = at(message.attributes, &[3]).unwrap_or_default();
            // NFTA_SET_ELEM_DATA, NFTA_DATA_VALUE
            let values = attributes(elements).filter_map(|(_, element)| at(element, &[2, 1]));
            targets.1.extend(values.filter_map(|value| map.target(value)));
        };
        let (changed, targets) = dump(GET_ELEMENTS, self.family, &which, take)?;
        Ok((!changed).then_some(targets))
    }
}

fn family(number: u8) -> &'static str {
    match number {
        1 => "inet",
        2 => "ip",
        NFPROTO_IPV6 => "ip6",
        5 => "netdev",
        7 => "bridge",
        _ => "?",
    }
}

/// The Service that kube-proxy means, and the name of its port. In nftables mode the chain names them:
/// `service-HASH-NAMESPACE/NAME/PROTOCOL/PORT`; `local-` and `external-` likewise, and `endpoint-` goes on with
/// `__IP/PORT`. Until Kubernetes 1.35 only `endpoint-` chains send packets to endpoints; later ones are for session
/// affinity alone. In iptables mode a comment names them: `NAMESPACE/NAME:PORT`.
pub fn service(chain: &str, comment: Option<&str>) -> Option<(String, Option<String>)> {
    const PREFIXES: [&str; 4] = ["service-", "local-", "external-", "endpoint-"];
    let rest = PREFIXES.iter().find_map(|prefix| chain.strip_prefix(prefix));
    let (named, port) = if let Some((_, path)) = rest.and_then(|rest| rest.split_once('-')) {
        let mut parts = path.splitn(4, '/');
        let named = [parts.next()?, parts.next()?].join("/");
        let port = parts.nth(1).and_then(|port| port.split("__").next());
        (named, port.unwrap_or_default().to_owned())
    } else {
        let (named, port) = comment?.split_once(':').unwrap_or((comment?, ""));
        (named.to_owned(), port.to_owned())
    };
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '/');
    args::name(&named).filter(|_| named.chars().all(label))?;
    Some((named, Some(port).filter(|port| !port.is_empty())))
}

/// The comment in the user data of a rule, as `nft` writes it: number, length, value, one after the other.
fn noted(mut userdata: &[u8]) -> Option<String> {
    const COMMENT: u8 = 0;
    while let [kind, length, rest @ ..] = userdata {
        let (value, others) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            let text = value.split(|octet| *octet == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        userdata = others;
    }
    None
}

#[cfg(test)]
#[path = "rules_fuzz.rs"]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::super::testing::{expression, nested, number};
    use super::*;

    fn found(chain: &str, expressions: &[u8], userdata: &[u8]) -> Option<Found> {
        let names = [text(1, "kube-proxy"), text(2, chain)].concat();
        let attributes = [names, nested(4, expressions), nested(7, userdata)].concat();
        Found::of(Message {
            family: 2,
            generation: 1,
            attributes: &attributes,
        })
    }

    fn xt_dnat() -> Vec<u8> {
        let info = [
            &[3, 0, 0, 0, 1, 2, 3, 4][..],
            &[0; 28],
            &[0, 80, 0, 80, 0, 0, 0, 0],
        ]
        .concat();
        let target = [nested(1, b"DNAT\0"), number(2, 2), nested(3, &info)].concat();
        expression("target", &target)
    }

    #[test]
    fn a_rule_is_named_by_its_chain_or_by_its_comment() {
        let rule = found("KUBE-SEP-A", &xt_dnat(), b"\x02\x01x\x00\x0eshop/web:http\0")
            .unwrap()
            .rule;
        assert_eq!(
            (rule.table.as_str(), rule.chain.as_str()),
            ("ip kube-proxy", "KUBE-SEP-A")
        );
        assert_eq!(
            (rule.service.as_deref(), rule.port.as_deref()),
            (Some("shop/web"), Some("http"))
        );
        assert_eq!(rule.targets, ["1.2.3.4:80".parse().unwrap()]);
    }

    #[test]
    fn services_are_read_only_from_the_fields_that_kube_proxy_writes() {
        let endpoint = "endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80";
        let ipv6 = "endpoint-2CRNCTTE-ns1/svc1/tcp/p80__fd00.10.180..2.1/80";
        for (chain, comment, expected) in [
            (endpoint, None, "ns1/svc1 p80"),
            (ipv6, None, "ns1/svc1 p80"),
            ("service-42NFTM6N-ns2/svc-2/tcp/p-80", None, "ns2/svc-2 p-80"),
            ("service-42NFTM6N-ns2/svc2/udp/", None, "ns2/svc2 -"),
            (
                "endpoint-42NFTM6N-ns2/svc2/udp/__10.180.0.2/53",
                None,
                "ns2/svc2 -",
            ),
            ("local-42NFTM6N-ns2/svc2/tcp/p80", None, "ns2/svc2 p80"),
            ("external-42NFTM6N-ns2/svc2/tcp/p80", None, "ns2/svc2 p80"),
            ("KUBE-SEP-A", Some("ns/web:http"), "ns/web http"),
            ("KUBE-SEP-A", Some("ns/web"), "ns/web -"),
            ("DOCKER", None, "none"),
            ("DOCKER", Some("a container"), "none"),
            ("endpoint-", Some("ns/web"), "ns/web -"),
            ("endpoint-5OJB2KTY-", None, "none"),
            ("service-a-b", None, "none"),
        ] {
            let found = service(chain, comment).map_or("none".to_owned(), |(service, port)| {
                format!("{service} {}", port.as_deref().unwrap_or("-"))
            });
            assert_eq!(found, expected, "{chain} {comment:?}");
        }
    }

    #[test]
    fn a_rule_without_destination_is_left_out_and_a_malformed_comment_is_ignored() {
        assert!(found("c", &[], &[]).is_none());
        assert_eq!(noted(b"\x00\x09shop"), None);
        assert_eq!(noted(b"\x01\x00"), None);
        assert_eq!(noted(b"\x00"), None);
    }
}

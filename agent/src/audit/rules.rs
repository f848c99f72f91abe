//! Rules of nftables that send packets to endpoints: kube-proxy's in its nftables mode, and with iptables-nft below it in its
//! iptables mode.

use super::expressions::{Effect, Leads, Map, effect};
use super::netfilter::{Message, at, attributes, consistent, dump, string, text};
use crate::cli;
use crate::facts::Protocol;
use std::io;
use std::net::SocketAddr;

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE`, and `NFT_MSG_GETSETELEM`
const GET_RULE: u16 = 0x0a07;
const GET_ELEMENTS: u16 = 0x0a0d;
const NFPROTO_IPV6: u8 = 10;

/// A rule that sends packets elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its family and table, as `nft` writes them.
    pub table: String,
    /// Its chain.
    pub chain: String,
    /// `namespace/name` of the Service, if the chain or a comment tells.
    pub service: Option<String>,
    /// The transport that it is about; none: any.
    pub protocol: Option<Protocol>,
    /// What it has counted; none if it does not, or if it is not known for which target.
    pub packets: Option<u64>,
    /// Where to.
    pub targets: Vec<SocketAddr>,
}

/// All of them, in all tables. Errors: the kernel's.
pub fn read() -> anyhow::Result<Vec<Rule>> {
    consistent(attempt)
}

/// None if rules changed meanwhile.
fn attempt() -> io::Result<Option<Vec<Rule>>> {
    let take = |found: &mut Vec<Found>, message: Message<'_>| found.extend(Found::of(message));
    let Some(found) = dump(GET_RULE, 0, &[], take)? else {
        return Ok(None);
    };
    let mut rules = Vec::new();
    for mut found in found {
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
        Some(Self {
            rule: Rule {
                table: format!("{} {table}", family(message.family)),
                service: service(&chain, comment.as_deref()),
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

    /// None if the map is not of the same moment as the rule.
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
        let targets = dump(GET_ELEMENTS, self.family, &which, take)?;
        Ok(targets.and_then(|(changed, targets)| (!changed).then_some(targets)))
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

/// The Service that kube-proxy means: in its nftables mode the chain is `endpoint-HASH-NAMESPACE/NAME/PROTOCOL/PORT__IP/PORT`,
/// in its iptables mode a comment says `NAMESPACE/NAME:PORT`.
fn service(chain: &str, comment: Option<&str>) -> Option<String> {
    let path = chain
        .strip_prefix("endpoint-")
        .and_then(|rest| rest.split_once('-'));
    let named = match path {
        Some((_, path)) => path.splitn(3, '/').take(2).collect::<Vec<_>>().join("/"),
        None => comment?.split(':').next()?.to_owned(),
    };
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '/');
    cli::name(&named)
        .filter(|_| named.chars().all(label))
        .map(|_| named)
}

/// The comment among what `nft` notes beside a rule: number, length, value, one after the other.
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
        assert_eq!(rule.service.as_deref(), Some("shop/web"));
        assert_eq!(rule.targets, ["1.2.3.4:80".parse().unwrap()]);
    }

    #[test]
    fn services_are_found_where_kube_proxy_writes_them_and_nowhere_else() {
        let nftables = "endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80";
        for (chain, comment, expected) in [
            (nftables, None, Some("ns1/svc1")),
            ("KUBE-SEP-A", Some("ns/web:http"), Some("ns/web")),
            ("KUBE-SEP-A", Some("ns/web"), Some("ns/web")),
            ("DOCKER", None, None),
            ("DOCKER", Some("a container"), None),
            ("endpoint-", Some("ns/web"), Some("ns/web")),
            ("endpoint-5OJB2KTY-", None, None),
        ] {
            assert_eq!(
                service(chain, comment).as_deref(),
                expected,
                "{chain} {comment:?}"
            );
        }
    }

    #[test]
    fn a_rule_that_leads_nowhere_is_none_and_a_broken_note_says_nothing() {
        assert!(found("c", &[], &[]).is_none());
        assert_eq!(noted(b"\x00\x09shop"), None);
        assert_eq!(noted(b"\x01\x00"), None);
        assert_eq!(noted(b"\x00"), None);
    }
}

//! Flows that the kernel tracks (`linux/netfilter/nfnetlink_conntrack.h`).

use crate::node::netlink::netfilter::{address, at, dump, number};
use anyhow::Context as _;
use epguard_core::facts::Protocol;
use std::net::{IpAddr, SocketAddr};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`
const GET: u16 = 0x0101;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
/// `CTA_PROTOINFO`, `CTA_PROTOINFO_TCP`, `CTA_PROTOINFO_TCP_STATE`
const TCP_STATE: [u16; 3] = [4, 1, 1];
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
/// `TCP_CONNTRACK_TIME_WAIT` and `TCP_CONNTRACK_CLOSE`: neither side sends any more.
const ENDED: [u64; 2] = [7, 8];

/// A tracked flow that goes on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Its transport.
    pub protocol: Protocol,
    /// The side that opened it.
    pub client: SocketAddr,
    /// The address that the client sent to: a Service, or the endpoint itself.
    pub aim: SocketAddr,
    /// The address that replies to it, or would.
    pub endpoint: SocketAddr,
    /// State of a TCP flow, as `conntrack -L` writes it.
    pub state: Option<&'static str>,
}

/// Reads all TCP, UDP and SCTP flows that go on, of both families; there may be millions, so only
/// those wanted are kept: these come ascending, behind the number of all. Errors: the kernel's.
pub fn list_flows(is_wanted: impl Fn(&Flow) -> bool) -> anyhow::Result<(usize, Vec<Flow>)> {
    let take = |(seen, wanted): &mut (usize, Vec<Flow>), entry: &[u8]| {
        if let Some(flow) = parse_flow(entry) {
            *seen += 1;
            if is_wanted(&flow) {
                wanted.push(flow);
            }
        }
    };
    let (seen, mut wanted) = dump(GET, take).context("the kernel does not list it")?;
    // The kernel may list an entry twice if the table grows meanwhile.
    wanted.sort();
    wanted.dedup();
    Ok((seen, wanted))
}

/// A flow that goes on; none for one that has ended, or of another transport.
fn parse_flow(entry: &[u8]) -> Option<Flow> {
    if number(entry, &TCP_STATE).is_some_and(|state| ENDED.contains(&state)) {
        return None;
    }
    let (client, aim, protocol) = parse_tuple(at(entry, &[CTA_TUPLE_ORIG])?)?;
    let (endpoint, ..) = parse_tuple(at(entry, &[CTA_TUPLE_REPLY])?)?;
    Some(Flow {
        protocol,
        client,
        aim,
        endpoint,
        state: number(entry, &TCP_STATE).and_then(tcp_state),
    })
}

/// `enum tcp_conntrack`
fn tcp_state(number: u64) -> Option<&'static str> {
    const STATES: &str =
        "NONE SYN_SENT SYN_RECV ESTABLISHED FIN_WAIT CLOSE_WAIT LAST_ACK TIME_WAIT CLOSE SYN_SENT2";
    STATES.split(' ').nth(usize::try_from(number).ok()?)
}

/// Source, destination and transport.
fn parse_tuple(tuple: &[u8]) -> Option<(SocketAddr, SocketAddr, Protocol)> {
    // CTA_PROTO_NUM, _SRC_PORT, _DST_PORT
    let protocol = Protocol::from_repr(transport(tuple, 1)?.try_into().ok()?)?;
    let source_port = transport(tuple, 2)?.try_into().ok()?;
    let destination_port = transport(tuple, 3)?.try_into().ok()?;
    let source = SocketAddr::new(ip(tuple, 1)?, source_port);
    let destination = SocketAddr::new(ip(tuple, 2)?, destination_port);
    Some((source, destination, protocol))
}

/// `CTA_IP_V4_SRC` and `_DST` are 1 and 2, of IPv6 3 and 4.
fn ip(tuple: &[u8], v4: u16) -> Option<IpAddr> {
    let octets = at(tuple, &[CTA_TUPLE_IP, v4]).or_else(|| at(tuple, &[CTA_TUPLE_IP, v4 + 2]))?;
    address(octets)
}

fn transport(tuple: &[u8], attribute: u16) -> Option<u64> {
    number(tuple, &[CTA_TUPLE_PROTO, attribute])
}

#[cfg(test)]
#[path = "conntrack_fuzz.rs"]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::netlink::netfilter::attribute as nested;

    fn side(source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let addresses = [nested(1, &source), nested(2, &destination)].concat();
        let [from, to] = ports.map(u16::to_be_bytes);
        let transport = [nested(1, &[6]), nested(2, &from), nested(3, &to)].concat();
        [nested(1, &addresses), nested(2, &transport)].concat()
    }

    /// A client's flow to a Service, in a state of TCP.
    fn entry(state: u8) -> Vec<u8> {
        [
            nested(1, &side([10, 244, 1, 5], [10, 96, 0, 1], [40000, 80])),
            nested(2, &side([10, 244, 1, 10], [10, 244, 1, 5], [8080, 40000])),
            nested(4, &nested(1, &nested(1, &[state]))),
        ]
        .concat()
    }

    #[test]
    fn a_flow_has_its_original_destination_and_its_endpoint() {
        let known = Flow {
            protocol: Protocol::Tcp,
            client: "10.244.1.5:40000".parse().unwrap(),
            aim: "10.96.0.1:80".parse().unwrap(),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            state: Some("ESTABLISHED"),
        };
        assert_eq!(parse_flow(&entry(3)), Some(known));
        assert_eq!(
            parse_flow(&entry(7)),
            None,
            "what has ended leads nobody anywhere"
        );
    }

    #[test]
    fn ipv6_is_read_the_same_way() {
        let [a, b] = ["fd00::a", "fd00::b"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
        let addresses = [nested(3, &a.octets()), nested(4, &b.octets())].concat();
        let transport = [nested(1, &[17]), nested(2, &[0, 53]), nested(3, &[1, 0])].concat();
        let octets = [nested(1, &addresses), nested(2, &transport)].concat();
        let read = parse_tuple(&octets).unwrap();
        assert_eq!(
            (read.0.to_string(), read.2),
            ("[fd00::a]:53".into(), Protocol::Udp)
        );
        assert_eq!(read.1.to_string(), "[fd00::b]:256");
    }
}

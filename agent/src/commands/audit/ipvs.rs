//! Destinations of IPVS, over generic netlink (`linux/ip_vs.h`).

use super::netfilter::{REFUSED, address};
use crate::node::netlink::attributes::{at, attribute, native, number, text};
use crate::node::netlink::request::{Message, Request};
use anyhow::Context as _;
use epguard_core::facts::Protocol;
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_DUMP};
use rtnetlink::sys::protocols::NETLINK_GENERIC;
use std::net::SocketAddr;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`
const CONTROL: (u16, u8, u16, u16) = (0x10, 3, 1, 2);
const GET_SERVICE: u8 = 4;
const GET_DEST: u8 = 8;
/// `IPVS_CMD_ATTR_SERVICE` and `IPVS_CMD_ATTR_DEST`
const SERVICE: u16 = 1;
const DEST: u16 = 2;
/// The attributes that name a Service: family, protocol, address, port, or a mark.
const NAMING: [u16; 5] = [1, 2, 3, 4, 5];

/// A destination to which IPVS sends a Service's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The Service's address.
    pub service: SocketAddr,
    /// Its transport.
    pub protocol: Protocol,
    /// The address that connections are sent to.
    pub endpoint: SocketAddr,
    /// 0: existing connections go on, new ones go elsewhere.
    pub weight: u64,
    /// How many connections IPVS gave it.
    pub connections: Option<u64>,
}

/// Reads all destinations, except those of Services that are a firewall's mark: kube-proxy writes none. The request
/// makes the kernel load IPVS, so make it only where IPVS is in use. Errors: the kernel's.
pub fn read() -> anyhow::Result<Vec<Destination>> {
    let (control, command, id, name) = CONTROL;
    let question = [header(command), text(name, "IPVS")].concat();
    let take = |family: &mut Option<u64>, message: &Message<'_>| {
        *family = message
            .payload()
            .get(4..)
            .and_then(|attributes| native(attributes, &[id]));
    };
    let family = Request::new(NETLINK_GENERIC, control, NLM_F_ACK, &question).ask(take);
    let family = family
        .context(REFUSED)?
        .and_then(|family| u16::try_from(family).ok());
    let family = family.context("it has no number")?;
    let mut destinations = Vec::new();
    for (vip, protocol, named) in list(family, &header(GET_SERVICE), service)? {
        let question = [header(GET_DEST), named].concat();
        destinations.extend(list(family, &question, |body| destination(body, vip, protocol))?);
    }
    Ok(destinations)
}

fn list<T>(family: u16, question: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> anyhow::Result<Vec<T>> {
    let take = |all: &mut Vec<T>, message: &Message<'_>| all.extend(read(message.payload()));
    Request::new(NETLINK_GENERIC, family, NLM_F_DUMP, question)
        .ask(take)
        .context(REFUSED)
}

/// `struct genlmsghdr`
fn header(command: u8) -> Vec<u8> {
    vec![command, 1, 0, 0]
}

/// A Service's address and transport, and the attribute that names it in a request.
fn service(body: &[u8]) -> Option<(SocketAddr, Protocol, Vec<u8>)> {
    let service = at(body.get(4..)?, &[SERVICE])?;
    // AF, PROTOCOL, ADDR, PORT
    let protocol = u8::try_from(native(service, &[2])?)
        .ok()
        .and_then(Protocol::from_number)?;
    let vip = endpoint(service, native(service, &[1])?, 3, 4)?;
    let naming = NAMING
        .iter()
        .filter_map(|kind| Some(attribute(*kind, at(service, &[*kind])?)));
    Some((
        vip,
        protocol,
        attribute(SERVICE, &naming.collect::<Vec<_>>().concat()),
    ))
}

fn destination(body: &[u8], service: SocketAddr, protocol: Protocol) -> Option<Destination> {
    let destination = at(body.get(4..)?, &[DEST])?;
    let own = if service.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // ADDR, PORT, ADDR_FAMILY, which older kernels leave out; WEIGHT; CONNS of STATS64 or STATS
    let family = native(destination, &[11]).or(u64::try_from(own).ok())?;
    Some(Destination {
        service,
        protocol,
        endpoint: endpoint(destination, family, 1, 2)?,
        weight: native(destination, &[4])?,
        connections: native(destination, &[12, 1]).or_else(|| native(destination, &[10, 1])),
    })
}

/// An address has room for IPv6, and an IPv4 one is at its beginning.
fn endpoint(attributes: &[u8], family: u64, addr: u16, port: u16) -> Option<SocketAddr> {
    let length = if family == u64::try_from(libc::AF_INET).ok()? {
        4
    } else {
        16
    };
    let ip = address(at(attributes, &[addr])?.get(..length)?)?;
    let port = u16::try_from(number(attributes, &[port])?).ok()?;
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(ip: &str) -> Vec<u8> {
        let mut octets = match ip.parse().unwrap() {
            std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
            std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        octets.resize(16, 0);
        octets
    }

    /// As the kernel's `ip_vs_genl_fill_service` writes it for `ipvsadm -A -t VIP:80 -s rr`.
    fn a_service(family: u16, vip: &str) -> Vec<u8> {
        let service = [
            attribute(1, &family.to_ne_bytes()),
            attribute(2, &6_u16.to_ne_bytes()),
            attribute(3, &padded(vip)),
            attribute(4, &80_u16.to_be_bytes()),
            text(6, "rr"),
            attribute(7, &[0; 8]),
            attribute(8, &0_u32.to_ne_bytes()),
            attribute(9, &u32::MAX.to_ne_bytes()),
        ];
        [header(GET_SERVICE), attribute(SERVICE, &service.concat())].concat()
    }

    /// As `ip_vs_genl_fill_dest` writes it.
    fn a_destination(family: u16, ip: &str) -> Vec<u8> {
        let numbers = |kind: u16| attribute(kind, &7_u32.to_ne_bytes());
        let stats = attribute(10, &attribute(1, &9_u32.to_ne_bytes()));
        let stats64 = attribute(12, &attribute(1, &9_u64.to_ne_bytes()));
        let destination = [
            attribute(1, &padded(ip)),
            attribute(2, &8080_u16.to_be_bytes()),
            attribute(3, &0_u32.to_ne_bytes()),
            attribute(4, &1_u32.to_ne_bytes()),
            (5..=9).map(numbers).collect::<Vec<_>>().concat(),
            attribute(11, &family.to_ne_bytes()),
            stats,
            stats64,
        ];
        [header(GET_DEST), attribute(DEST, &destination.concat())].concat()
    }

    #[test]
    fn services_and_their_destinations_are_read_in_both_families() {
        for (family, vip, ip, shown) in [
            (
                2,
                "10.96.0.1",
                "10.244.1.10",
                ["10.96.0.1:80", "10.244.1.10:8080"],
            ),
            (10, "fd00::1", "fd00::2", ["[fd00::1]:80", "[fd00::2]:8080"]),
        ] {
            let (service, protocol, named) = service(&a_service(family, vip)).unwrap();
            assert_eq!(
                (service.to_string().as_str(), protocol),
                (shown[0], Protocol::Tcp)
            );
            let kinds: Vec<u16> =
                crate::node::netlink::attributes::attributes(at(&named, &[SERVICE]).unwrap())
                    .map(|(kind, _)| kind)
                    .collect();
            assert_eq!(kinds, [1, 2, 3, 4], "what names it, and nothing else");
            let destination = destination(&a_destination(family, ip), service, protocol).unwrap();
            assert_eq!(destination.endpoint.to_string(), shown[1]);
            assert_eq!((destination.weight, destination.connections), (1, Some(9)));
        }
    }

    #[test]
    fn a_service_of_a_firewalls_mark_is_left_out() {
        let marked = [
            attribute(1, &2_u16.to_ne_bytes()),
            attribute(5, &1_u32.to_ne_bytes()),
        ]
        .concat();
        assert!(service(&[header(GET_SERVICE), attribute(SERVICE, &marked)].concat()).is_none());
    }

    proptest! {
        #[test]
        fn broken_answers_never_make_it_panic(cut in 0_usize..300, at in 0_usize..300, octet: u8) {
            for answer in [a_service(2, "10.96.0.1"), a_destination(2, "10.244.1.10")] {
                let mut answer = answer;
                let at = at % answer.len();
                answer[at] = octet;
                answer.truncate(cut);
                let _ = (service(&answer), destination(&answer, "10.96.0.1:80".parse().unwrap(), Protocol::Tcp));
            }
        }
    }
}

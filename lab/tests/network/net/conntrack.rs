//! Deletes conntrack entries through ctnetlink (`linux/netfilter/nfnetlink_conntrack.h`).
//!
//! It lists the entries and deletes them one by one: the kernel's own deletion by filter compares IPv6 addresses the wrong way
//! round (`ctnetlink_filter_match_tuple`, seen on 6.18).

use std::io;
use std::net::IpAddr;

use epguard::node::netlink::netfilter::at;
use epguard::node::netlink::request::{Message, Request};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`
const GET: u16 = (1 << 8) | 1;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`
const DELETE: u16 = (1 << 8) | 2;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLA_F_NESTED: u16 = 1 << 15;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_PROTO_NUM: u16 = 1;

/// Deletes, in the calling thread's namespace, the UDP entries whose replies come from `backend`.
pub(super) fn delete_udp(backend: IpAddr) -> io::Result<()> {
    let family = if backend.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // Of struct nfgenmsg, which comes first, only the family matters.
    let header = [family.to_ne_bytes()[0], 0, 0, 0];
    let netfilter = libc::NETLINK_NETFILTER as isize;
    let take = |tuples: &mut Vec<Vec<u8>>, message: &Message<'_>| {
        let entry = message.payload().get(header.len()..).unwrap_or_default();
        tuples.extend(original_if_udp_from(entry, backend).map(<[u8]>::to_vec));
    };
    for original in Request::new(netfilter, GET, NLM_F_DUMP, &header).ask(take)? {
        // It consists of attributes, so that it needs no padding.
        let length = u16::try_from(4 + original.len()).map_err(io::Error::other)?;
        let [length, kind] = [length, CTA_TUPLE_ORIG | NLA_F_NESTED].map(u16::to_ne_bytes);
        let body = [&header, &length[..], &kind, &original].concat();
        let deletion = Request::new(netfilter, DELETE, NLM_F_ACK, &body);
        match deletion.ask(|(), _| {}) {
            // It expired meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            deleted => deleted?,
        }
    }
    Ok(())
}

/// The original tuple of a UDP entry whose replies come from there.
fn original_if_udp_from(entry: &[u8], backend: IpAddr) -> Option<&[u8]> {
    let protocol = at(entry, &[CTA_TUPLE_REPLY, CTA_TUPLE_PROTO, CTA_PROTO_NUM])?;
    let source = |kind| at(entry, &[CTA_TUPLE_REPLY, CTA_TUPLE_IP, kind]);
    let from_backend = match backend {
        IpAddr::V4(ip) => source(CTA_IP_V4_SRC)? == ip.octets(),
        IpAddr::V6(ip) => source(CTA_IP_V6_SRC)? == ip.octets(),
    };
    (from_backend && protocol == [17]).then(|| at(entry, &[CTA_TUPLE_ORIG]))?
}

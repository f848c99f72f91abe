//! Deletes conntrack entries through ctnetlink (`linux/netfilter/nfnetlink_conntrack.h`).
//!
//! It lists the entries and deletes them one by one: the kernel's own deletion by filter compares IPv6 addresses the wrong way
//! round (`ctnetlink_filter_match_tuple`, seen on 6.18).

use std::io::{self, Read, Write};
use std::net::IpAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`
const GET: u16 = (1 << 8) | 1;
/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`
const DELETE: u16 = (1 << 8) | 2;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_PROTO_NUM: u16 = 1;
/// Of `struct nlmsghdr` and `struct nfgenmsg`, in octets.
const HEADERS: usize = 16 + 4;

/// Deletes, in the calling thread's namespace, the UDP entries whose replies come from `backend`.
pub(super) fn delete_udp(backend: IpAddr) -> io::Result<()> {
    let netfilter = Some(Protocol::from(libc::NETLINK_NETFILTER));
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, netfilter)?;
    let family = if backend.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let family = family.to_ne_bytes()[0];
    socket.write_all(&message(GET, NLM_F_REQUEST | NLM_F_DUMP, family, &[]))?;
    for entry in replies(&mut socket)? {
        let Some(original) = original_if_udp_from(&entry, backend) else {
            continue;
        };
        let tuple = attribute(CTA_TUPLE_ORIG, original);
        socket.write_all(&message(DELETE, NLM_F_REQUEST | NLM_F_ACK, family, &tuple))?;
        match replies(&mut socket) {
            // It expired meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

/// The attributes of all messages up to the end of the dump or the acknowledgement.
fn replies(socket: &mut Socket) -> io::Result<Vec<Vec<u8>>> {
    let mut entries = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        while let Some((kind, body)) = next_message(&mut rest) {
            match kind {
                NLMSG_DONE => return Ok(entries),
                NLMSG_ERROR => return acknowledged(body).map(|()| entries),
                _ => entries.push(body.get(4..).unwrap_or_default().to_vec()),
            }
        }
    }
}

fn next_message<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
    let body = rest.get(16..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body))
}

fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|errno| i32::from_ne_bytes(*errno)) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The original tuple of an entry, if it is a UDP one whose replies come from there.
fn original_if_udp_from(entry: &[u8], backend: IpAddr) -> Option<&[u8]> {
    let reply = find(entry, CTA_TUPLE_REPLY)?;
    let protocol = find(find(reply, CTA_TUPLE_PROTO)?, CTA_PROTO_NUM)?;
    let addresses = find(reply, CTA_TUPLE_IP)?;
    let from_backend = match backend {
        IpAddr::V4(ip) => find(addresses, CTA_IP_V4_SRC)? == ip.octets(),
        IpAddr::V6(ip) => find(addresses, CTA_IP_V6_SRC)? == ip.octets(),
    };
    if from_backend && protocol == [17] {
        find(entry, CTA_TUPLE_ORIG)
    } else {
        None
    }
}

/// The value of the attribute of this kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        // The two highest bits are flags.
        let found = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?) & 0x3fff;
        if found == kind {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn message(kind: u16, flags: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADERS + attributes.len()).unwrap_or(u32::MAX);
    // Sequence number and port may be zero; of struct nfgenmsg only the family matters.
    let header = [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 8],
        &[family, 0, 0, 0],
    ];
    [&header.concat(), attributes].concat()
}

/// An attribute that holds others.
fn attribute(kind: u16, nested: &[u8]) -> Vec<u8> {
    const NLA_F_NESTED: u16 = 1 << 15;
    let length = u16::try_from(4 + nested.len()).unwrap_or(u16::MAX);
    [
        &length.to_ne_bytes()[..],
        &(kind | NLA_F_NESTED).to_ne_bytes(),
        nested,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_padded_ones() {
        let attributes = [5, 0, 1, 0, 17, 0, 0, 0, 6, 0, 2, 0x80, 7, 8, 0, 0];
        assert_eq!(find(&attributes, 1), Some(&[17][..]));
        assert_eq!(find(&attributes, 2), Some(&[7, 8][..]));
        assert_eq!(find(&attributes, 3), None);
    }

    #[test]
    fn malformed_attributes_and_messages_end_the_search() {
        assert_eq!(find(&[0, 0, 9, 0, 0, 0], 1), None);
        assert_eq!(find(&[200, 0, 1, 0], 1), None);
        assert_eq!(next_message(&mut &[3, 0, 0, 0, 0, 0][..]), None);
    }
}

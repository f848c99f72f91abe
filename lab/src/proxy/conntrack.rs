//! Deletes conntrack entries through ctnetlink (`linux/netfilter/nfnetlink_conntrack.h`).

use std::io::{self, Read, Write};
use std::net::IpAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`
const DELETE: u16 = (1 << 8) | 2;
/// `NLM_F_REQUEST | NLM_F_ACK`
const REQUEST_ACK: u16 = 1 | 4;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_FILTER: u16 = 25;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_PROTO_NUM: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
/// `CTA_FILTER_FLAG(CTA_IP_SRC) | CTA_FILTER_FLAG(CTA_PROTO_NUM)`
const SOURCE_AND_PROTOCOL: u32 = 1 | (1 << 3);

/// Deletes, in the calling thread's namespace, the UDP entries whose replies come from `backend`.
pub(super) fn delete_udp(backend: IpAddr) -> io::Result<()> {
    let protocol = Protocol::from(libc::NETLINK_NETFILTER);
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(protocol))?;
    socket.write_all(&message(backend))?;
    // The acknowledgement: a header of 16 octets, then a negative errno or 0.
    let mut acknowledgement = [0; 512];
    if socket.read(&mut acknowledgement)? < 20 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let errno = i32::from_ne_bytes([16, 17, 18, 19].map(|at| acknowledgement[at]));
    if errno == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-errno))
    }
}

fn message(backend: IpAddr) -> Vec<u8> {
    let (family, source) = match backend {
        IpAddr::V4(ip) => (libc::AF_INET, attribute(CTA_IP_V4_SRC, &ip.octets())),
        IpAddr::V6(ip) => (libc::AF_INET6, attribute(CTA_IP_V6_SRC, &ip.octets())),
    };
    let udp = attribute(CTA_PROTO_NUM, &[17]);
    let tuple = [nested(CTA_TUPLE_IP, &source), nested(CTA_TUPLE_PROTO, &udp)].concat();
    let flags = attribute(CTA_FILTER_REPLY_FLAGS, &SOURCE_AND_PROTOCOL.to_ne_bytes());
    let attributes = [nested(CTA_TUPLE_REPLY, &tuple), nested(CTA_FILTER, &flags)].concat();
    // struct nfgenmsg: family, version, resource.
    let generic = [family.to_ne_bytes()[0], 0, 0, 0];
    let length = u32::try_from(16 + generic.len() + attributes.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([DELETE, REQUEST_ACK].map(u16::to_ne_bytes).concat());
    // Sequence number and port, which need not be unique on a socket used once.
    message.extend([0; 8]);
    message.extend(generic);
    message.extend(attributes);
    message
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    const NLA_F_NESTED: u16 = 1 << 15;
    attribute(kind | NLA_F_NESTED, attributes)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut attribute = [length, kind].map(u16::to_ne_bytes).concat();
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_but_their_length_is_not() {
        assert_eq!(attribute(1, &[17])[..2], 5_u16.to_ne_bytes());
        assert_eq!(attribute(1, &[17]).len(), 8);
    }

    #[test]
    fn the_message_states_its_own_length() {
        let message = message("fd00::2".parse().unwrap());
        assert_eq!(message[..4], u32::try_from(message.len()).unwrap().to_ne_bytes());
    }
}

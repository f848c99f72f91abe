//! Complete dumps over a netlink socket of any family, from the caller's network namespace, and their attributes.

use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NlasIterator,
};
use rtnetlink::sys::Socket;
use std::io;

/// Longest wait for an answer. The kernel continues a dump at once, or never.
const PATIENCE: TimeVal = TimeVal::new(10, 0);

/// Length of `struct nlmsghdr`, in octets.
const HEADER: usize = 16;

/// The kernel sends at most 32 KiB at a time, into a buffer of any size.
const BUFFER: usize = 1 << 16;

/// Sends one request and passes the body of every answer to `take`. `family` is `NETLINK_*`, `body` all that follows
/// the message's header. False if the kernel reports a change during the dump: then answers may be missing or double.
///
/// Errors: the kernel's.
pub fn dump(family: isize, kind: u16, body: &[u8], take: impl FnMut(&[u8])) -> io::Result<bool> {
    ask(family, kind, NLM_F_DUMP, body, take)
}

/// Sends a request that has one answer. Errors: the kernel's.
pub fn get(family: isize, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let socket = open(family)?;
    socket.send(&request(kind, 0, body), 0)?;
    let mut buffer = Vec::with_capacity(BUFFER);
    socket.recv(&mut buffer, 0)?;
    let message = NetlinkBuffer::new_checked(&buffer[..]).map_err(|_| io::ErrorKind::InvalidData)?;
    match message.message_type() {
        NLMSG_ERROR => acknowledged(message.payload()).map(|()| Vec::new()),
        _ => Ok(message.payload().to_vec()),
    }
}

fn ask(family: isize, kind: u16, flags: u16, body: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<bool> {
    let socket = open(family)?;
    socket.send(&request(kind, flags, body), 0)?;
    let mut consistent = true;
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        buffer.clear();
        let length = socket.recv(&mut buffer, 0)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            let message = NetlinkBuffer::new_checked(rest).map_err(|_| io::ErrorKind::InvalidData)?;
            consistent &= message.flags() & NLM_F_DUMP_INTR == 0;
            let body = message.payload();
            match message.message_type() {
                NLMSG_DONE => return acknowledged(body).map(|()| consistent),
                NLMSG_ERROR => acknowledged(body)?,
                _ => take(body),
            }
            let length = (HEADER + body.len()).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

fn open(family: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(family)?;
    setsockopt(&socket, ReceiveTimeout, &PATIENCE).map_err(io::Error::from)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// Reads the error number of an acknowledgement. Both the end of a dump and an error begin with an error number below
/// 0, or 0.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|number| i32::from_ne_bytes(*number)) {
        None | Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let header = [
        &u32::try_from(HEADER + body.len())
            .unwrap_or(u32::MAX)
            .to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &(NLM_F_REQUEST | flags).to_ne_bytes(),
        // Sequence number and port may be zero: each socket sends one request.
        &[0; 8],
    ];
    [&header.concat(), body].concat()
}

/// An attribute with a value, padded as the kernel requires it.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let header = u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes();
    let mut attribute = [&header[..], &kind.to_ne_bytes(), value].concat();
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

/// An attribute that holds text, as a request requires it.
pub fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

/// Numbers and values of attributes, in their order, up to the first truncated one.
pub fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(octets).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(4..length)?))
    })
}

/// The value of the attribute at the end of a path of nested ones.
pub fn at<'a>(octets: &'a [u8], path: &[u16]) -> Option<&'a [u8]> {
    path.iter().try_fold(octets, |octets, wanted| {
        attributes(octets).find_map(|(kind, value)| (kind == *wanted).then_some(value))
    })
}

/// The number at the end of a path, whose octets are in network order.
pub fn number(octets: &[u8], path: &[u16]) -> Option<u64> {
    let value = at(octets, path)?;
    let number = |number: u64, octet: &u8| number << 8 | u64::from(*octet);
    (1..=8)
        .contains(&value.len())
        .then(|| value.iter().fold(0, number))
}

/// The number at the end of a path, whose 2, 4 or 8 octets are in the machine's order.
pub fn native(octets: &[u8], path: &[u16]) -> Option<u64> {
    let value = at(octets, path)?;
    let two = || value.try_into().map(|octets| u16::from_ne_bytes(octets).into());
    let four = || value.try_into().map(|octets| u32::from_ne_bytes(octets).into());
    let eight = || value.try_into().map(u64::from_ne_bytes);
    two().or_else(|_| four()).or_else(|_| eight()).ok()
}

/// The text at the end of a path, which ends with a zero.
pub fn string(octets: &[u8], path: &[u16]) -> Option<String> {
    let value = at(octets, path)?;
    let text = value.split(|octet| *octet == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_found_behind_padded_ones_and_inside_of_nested_ones() {
        let octets = [5, 0, 1, 0, 17, 0, 0, 0, 10, 0, 2, 0x80, 6, 0, 3, 0, 7, 8, 0, 0];
        assert_eq!(at(&octets, &[1]), Some(&[17][..]));
        assert_eq!(number(&octets, &[2, 3]), Some(0x0708));
        assert_eq!(at(&octets, &[3]), None);
        assert_eq!(at(&octets[..15], &[2]), None, "what is broken off is not there");
    }

    #[test]
    fn numbers_in_the_machines_order_have_2_4_or_8_octets() {
        assert_eq!(native(&attribute(1, &7_u16.to_ne_bytes()), &[1]), Some(7));
        assert_eq!(native(&attribute(1, &7_u32.to_ne_bytes()), &[1]), Some(7));
        assert_eq!(native(&attribute(1, &7_u64.to_ne_bytes()), &[1]), Some(7));
        assert_eq!(native(&attribute(1, &[7; 3]), &[1]), None);
    }

    #[test]
    fn text_reads_back_as_it_is_asked_for() {
        for name in ["", "abc", "kube-proxy"] {
            assert_eq!(string(&text(2, name), &[2]).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_refusal_is_an_error_and_an_empty_end_is_none() {
        let refused = acknowledged(&(-libc::EPERM).to_ne_bytes()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(acknowledged(&[0; 4]).is_ok() && acknowledged(&[]).is_ok());
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>, path: Vec<u16>) {
            let _ = (number(&octets, &path), native(&octets, &path), string(&octets, &path));
            let _ = acknowledged(&octets).is_ok();
        }
    }
}

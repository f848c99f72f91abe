//! Whole dumps of netfilter's tables (`linux/netfilter/nfnetlink.h`) of the network namespace that asks, and their attributes.

use anyhow::{Context as _, bail};
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NlasIterator,
};
use rtnetlink::sys::{Socket, protocols::NETLINK_NETFILTER};
use std::io;
use std::net::IpAddr;

/// Changes in the middle of a dump spoil it; that many in a row do not happen.
const ATTEMPTS: u32 = 10;

/// The kernel goes on with a dump at once, or never.
const PATIENCE: TimeVal = TimeVal::new(10, 0);

/// Of `struct nlmsghdr`, in octets.
const HEADER: usize = 16;

/// The kernel sends at most 32 KiB at a time, whatever it is offered.
const BUFFER: usize = 1 << 16;

/// One answer.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `NFPROTO_*`.
    pub family: u8,
    /// The low half of the number of the rules' generation; of conntrack 0.
    pub generation: u16,
    /// See [`attributes`].
    pub attributes: &'a [u8],
}

/// Reads until nothing has changed meanwhile. `read` gives none if something did.
pub fn consistent<T>(mut read: impl FnMut() -> io::Result<Option<T>>) -> anyhow::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(whole) = read().context("the kernel refuses to list it")? {
            return Ok(whole);
        }
    }
    bail!("interrupted by changes {ATTEMPTS} times in a row");
}

/// Hands every answer to `take`; none if something changed meanwhile. `kind` is subsystem and message, `family` 0 is all.
pub fn dump<T: Default>(
    kind: u16,
    family: u8,
    attributes: &[u8],
    take: impl Fn(&mut T, Message<'_>),
) -> io::Result<Option<T>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    setsockopt(&socket, ReceiveTimeout, &PATIENCE).map_err(io::Error::from)?;
    socket.bind_auto()?;
    socket.send(&request(kind, family, attributes), 0)?;
    let (mut taken, mut consistent) = (T::default(), true);
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
                NLMSG_DONE => return acknowledged(body).map(|()| consistent.then_some(taken)),
                NLMSG_ERROR => acknowledged(body)?,
                _ => take_body(body, |message| take(&mut taken, message)),
            }
            let length = (HEADER + body.len()).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

fn take_body(body: &[u8], take: impl FnOnce(Message<'_>)) {
    if let Some(([family, _, generation @ ..], attributes)) = body.split_first_chunk::<4>() {
        let generation = u16::from_be_bytes(*generation);
        take(Message {
            family: *family,
            generation,
            attributes,
        });
    }
}

/// Both the end of a dump and an error begin with an error number below 0, or 0.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|number| i32::from_ne_bytes(*number)) {
        None | Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

fn request(kind: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    // Of struct nfgenmsg, which follows, only the family matters.
    let length = HEADER + 4 + attributes.len();
    let header = [
        &u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes(),
        // Sequence number and port may be zero: each socket asks once.
        &[0; 8],
        &[family, 0, 0, 0],
    ];
    [&header.concat(), attributes].concat()
}

/// An attribute that holds text, as a request wants it.
pub fn text(kind: u16, text: &str) -> Vec<u8> {
    let length = 4 + text.len() + 1;
    let header = u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes();
    let mut attribute = [&header[..], &kind.to_ne_bytes(), text.as_bytes()].concat();
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

/// Numbers and values, in their order, up to the first that is broken off.
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

/// An address of 4 or 16 octets.
pub fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
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

    #[test]
    fn a_spoilt_dump_is_read_again_but_not_for_ever() {
        let mut answers = [None, Some(7)].into_iter();
        assert_eq!(consistent(|| Ok(answers.next().flatten())).unwrap(), 7);
        let error = consistent::<()>(|| Ok(None)).unwrap_err();
        assert!(error.to_string().contains("10 times in a row"));
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>, path: Vec<u16>) {
            let _ = (number(&octets, &path), string(&octets, &path), acknowledged(&octets).is_ok());
            take_body(&octets, |message| { let _ = attributes(message.attributes).count(); });
        }
    }
}

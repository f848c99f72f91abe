//! Whole dumps of netfilter's tables (`linux/netfilter/nfnetlink.h`), of the network namespace of
//! this process, and the attributes of their messages. What is broken off is not there.

use super::request::NetlinkRequest;
use rtnetlink::packet_core::{NLM_F_DUMP, NlasIterator};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use std::io;
use std::net::IpAddr;

/// Octets of struct nfgenmsg, which comes first. Of it only the family matters: 0 is all.
const HEADER: usize = 4;

/// Passes the attributes of every message of one moment to `take`. `kind` is subsystem and message.
pub fn dump<T: Default>(kind: u16, take: impl Fn(&mut T, &[u8])) -> io::Result<T> {
    let request = NetlinkRequest::new(NETLINK_NETFILTER, kind, NLM_F_DUMP, &[0; HEADER]);
    request.ask(|taken, message| take(taken, message.payload().get(HEADER..).unwrap_or_default()))
}

/// An address of 4 or 16 octets.
pub fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

/// An attribute with a value, padded as the kernel requires it.
#[cfg(test)]
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let header = u16::try_from(length).unwrap_or(u16::MAX).to_ne_bytes();
    let mut attribute = [&header[..], &kind.to_ne_bytes(), value].concat();
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

/// Numbers and values of attributes, in their order, up to the first truncated one.
fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(octets).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let kind = attribute.kind();
        let length = usize::from(attribute.length());
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
    if !(1..=8).contains(&value.len()) {
        return None;
    }
    let mut number = 0;
    for octet in value {
        number = number << 8 | u64::from(*octet);
    }
    Some(number)
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
        let octets = [
            5, 0, 1, 0, 17, 0, 0, 0, 10, 0, 2, 0x80, 6, 0, 3, 0, 7, 8, 0, 0,
        ];
        assert_eq!(at(&octets, &[1]), Some(&[17][..]));
        assert_eq!(number(&octets, &[2, 3]), Some(0x0708));
        assert_eq!(at(&octets, &[3]), None);
        assert_eq!(
            at(&octets[..15], &[2]),
            None,
            "what is broken off is not there"
        );
        for malformed in [&[0, 0, 9, 0, 0, 0][..], &[200, 0, 1, 0]] {
            assert_eq!(at(malformed, &[1]), None, "{malformed:?}");
        }
    }

    #[test]
    fn text_is_read_back_as_it_was_written() {
        for name in ["", "abc", "kube-proxy"] {
            let text = attribute(2, &[name.as_bytes(), &[0]].concat());
            assert_eq!(string(&text, &[2]).as_deref(), Some(name));
        }
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>, path: Vec<u16>) {
            let _ = (number(&octets, &path), string(&octets, &path));
        }
    }
}

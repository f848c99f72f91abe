//! Whole dumps of netfilter's tables (`linux/netfilter/nfnetlink.h`), of the network namespace of this process.

pub use crate::node::netlink::raw::{at, attributes, number, string, text};

use crate::node::netlink::raw;
use anyhow::{Context, bail};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use std::io;
use std::net::IpAddr;

/// How often a dump is read: changes in the middle spoil it, but not that many times in a row.
const ATTEMPTS: u32 = 10;

/// One message of a dump.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `NFPROTO_*`.
    pub family: u8,
    /// The low half of the number of the rules' generation; of conntrack 0.
    pub generation: u16,
    /// See [`attributes`].
    pub attributes: &'a [u8],
}

/// Repeats `read` until nothing has changed meanwhile. `read` gives none if something did.
pub fn consistent<T>(mut read: impl FnMut() -> io::Result<Option<T>>) -> anyhow::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(whole) = read().context("the kernel refuses to list it")? {
            return Ok(whole);
        }
    }
    bail!("interrupted by changes {ATTEMPTS} times in a row");
}

/// Passes every message to `take`; none if something changed meanwhile. `kind` is subsystem and message, `family` 0 is
/// all.
pub fn dump<T: Default>(
    kind: u16,
    family: u8,
    attributes: &[u8],
    take: impl Fn(&mut T, Message<'_>),
) -> io::Result<Option<T>> {
    // Of struct nfgenmsg, which comes first, only the family matters.
    let body = [&[family, 0, 0, 0], attributes].concat();
    let mut taken = T::default();
    let consistent = raw::dump(NETLINK_NETFILTER, kind, &body, |body| {
        take_body(body, |message| take(&mut taken, message));
    })?;
    Ok(consistent.then_some(taken))
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

/// An address of 4 or 16 octets.
pub fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spoilt_dump_is_read_again_but_not_for_ever() {
        let mut answers = [None, Some(7)].into_iter();
        assert_eq!(consistent(|| Ok(answers.next().flatten())).unwrap(), 7);
        let error = consistent::<()>(|| Ok(None)).unwrap_err();
        assert!(error.to_string().contains("10 times in a row"));
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>) {
            take_body(&octets, |message| { let _ = attributes(message.attributes).count(); });
        }
    }
}

//! Whole dumps of netfilter's tables (`linux/netfilter/nfnetlink.h`), of the network namespace of this process.

pub use crate::node::netlink::attributes::{at, attributes, number, string, text};

use crate::node::netlink::request::{ATTEMPTS, Request, interrupted};
use anyhow::Context as _;
use rtnetlink::packet_core::NLM_F_DUMP;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use std::io;
use std::net::IpAddr;

/// The context of the kernel's errors.
pub const REFUSED: &str = "the kernel does not list it";

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

/// Repeats `read`, which asks more than once, until nothing has changed meanwhile. `read` gives none if something did.
pub fn consistent<T>(mut read: impl FnMut() -> io::Result<Option<T>>) -> anyhow::Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(whole) = read().context(REFUSED)? {
            return Ok(whole);
        }
    }
    Err(interrupted().into())
}

/// Passes every message of one moment to `take`. `kind` is subsystem and message, `family` 0 is all.
pub fn dump<T: Default>(
    kind: u16,
    family: u8,
    attributes: &[u8],
    take: impl Fn(&mut T, Message<'_>),
) -> io::Result<T> {
    // Of struct nfgenmsg, which comes first, only the family matters.
    let body = [&[family, 0, 0, 0], attributes].concat();
    Request::new(NETLINK_NETFILTER, kind, NLM_F_DUMP, &body).ask(|taken, message| {
        take_body(message.payload(), |message| take(taken, message));
    })
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
    fn an_inconsistent_dump_is_read_again_at_most_10_times() {
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

//! Whole dumps of netfilter's tables (`linux/netfilter/nfnetlink.h`), of the network namespace of this process.

use super::request::Request;
use rtnetlink::packet_core::NLM_F_DUMP;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use std::io;
use std::net::IpAddr;

/// One message of a dump.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `NFPROTO_*`.
    pub family: u8,
    /// See [`attributes`](super::attributes::attributes).
    pub attributes: &'a [u8],
}

/// Passes every message of one moment to `take`. `kind` is subsystem and message.
pub fn dump<T: Default>(kind: u16, take: impl Fn(&mut T, Message<'_>)) -> io::Result<T> {
    // Of struct nfgenmsg, which comes first, only the family matters: 0 is all.
    Request::new(NETLINK_NETFILTER, kind, NLM_F_DUMP, &[0; 4]).ask(|taken, message| {
        take_body(message.payload(), |message| take(taken, message));
    })
}

fn take_body(body: &[u8], take: impl FnOnce(Message<'_>)) {
    if let Some(([family, ..], attributes)) = body.split_first_chunk::<4>() {
        take(Message { family: *family, attributes });
    }
}

/// An address of 4 or 16 octets.
pub fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>) {
            take_body(&octets, |message| { let _ = super::super::attributes::attributes(message.attributes).count(); });
        }
    }
}

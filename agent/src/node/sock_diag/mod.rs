//! Connected sockets of this network namespace, as the kernel lists them (`NETLINK_SOCK_DIAG`, `linux/inet_diag.h`).
//!
//! The kernel numbers each socket that it lists (its cookie), and also each socket that connects while its cgroup is
//! hooked.

mod filter;
mod lister;

pub use lister::{Listed, Lister};

use crate::node::netlink::attributes::{attribute, native};
use crate::node::netlink::request::{Message, Request};
use epguard_common::{Addr, Vip};
use rtnetlink::packet_core::NLM_F_DUMP;
use rtnetlink::sys::protocols::NETLINK_SOCK_DIAG;
use std::io;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQ_BYTECODE: u16 = 1;
const CGROUP_ID: u16 = 21;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The states of TCP in which a socket still sends to its peer, and the only one of a connected UDP socket:
/// `ESTABLISHED`, `SYN_SENT`, `FIN_WAIT1`, `FIN_WAIT2`, `CLOSE_WAIT`, `LAST_ACK`, `CLOSING`.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// Length of `struct inet_diag_msg`, in octets.
const MESSAGE: usize = 72;

/// A socket that is connected, or is about to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connected {
    /// The kernel's number of the socket, never used twice.
    pub cookie: u64,
    /// The address that the socket is connected to.
    pub peer: Vip,
    /// Id of the cgroup in which it was made; none before Linux 5.8.
    pub cgroup: Option<u64>,
}

/// The TCP and UDP sockets whose peer is one of these, ascending. The kernel lists no others, so the cost for the
/// caller grows only with the sockets found. A socket that is connected or closed meanwhile may or may not be listed.
///
/// Errors: the kernel's; `ENOENT` where it has no `tcp_diag` or `udp_diag`.
pub fn connected_to(vips: &[Vip]) -> io::Result<Vec<Connected>> {
    let mut found = Vec::new();
    for (family, protocol) in [(INET, TCP), (INET6, TCP), (INET, UDP), (INET6, UDP)] {
        // A socket of IPv6 may have an IPv4 peer.
        let fits = |vip: &&Vip| vip.protocol == protocol && (family == INET6 || vip.addr.is_v4());
        let wanted: Vec<Vip> = vips.iter().filter(fits).copied().collect();
        for vips in wanted.chunks(filter::MOST) {
            let take = |found: &mut Vec<Connected>, message: &Message<'_>| {
                let socket = connected(message.payload(), protocol);
                found.extend(socket.filter(|socket| vips.contains(&socket.peer)));
            };
            found.extend(request(family, protocol, vips).ask(take)?);
        }
    }
    // The kernel may list a socket twice if its table changes meanwhile.
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The request: `struct inet_diag_req_v2` and the filter.
fn request(family: u8, protocol: u8, vips: &[Vip]) -> Request {
    let filter = attribute(REQ_BYTECODE, &filter::peers(vips));
    let body = [
        &[family, protocol, 0, 0][..],
        &STATES.to_ne_bytes(),
        &[0; 48],
        &filter,
    ]
    .concat();
    Request::new(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &body)
}

/// Reads a `struct inet_diag_msg` and its attributes.
fn connected(body: &[u8], protocol: u8) -> Option<Connected> {
    let (message, attributes) = body.split_at_checked(MESSAGE)?;
    let destination = message.get(24..40)?;
    let addr = match *message.first()? {
        INET => Addr::v4(destination.get(..4)?.try_into().ok()?),
        INET6 => Addr::v6(destination.try_into().ok()?),
        _ => return None,
    };
    // The kernel writes the low half of the cookie first.
    let half = |at: usize| {
        message
            .get(at..)?
            .first_chunk()
            .map(|half| u64::from(u32::from_ne_bytes(*half)))
    };
    Some(Connected {
        cookie: half(48)? << 32 | half(44)?,
        peer: Vip {
            addr,
            port: u16::from_be_bytes(message.get(6..8)?.try_into().ok()?),
            protocol,
            reserved: 0,
        },
        cgroup: native(attributes, &[CGROUP_ID]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

    fn vip(address: SocketAddr, protocol: u8) -> Vip {
        Vip {
            addr: address.ip().into(),
            port: address.port(),
            protocol,
            reserved: 0,
        }
    }

    /// The cookie that `SO_COOKIE` returns.
    fn cookie_of(socket: &impl std::os::fd::AsRawFd) -> u64 {
        let (mut cookie, mut length) = (0_u64, 8);
        // SAFETY: the kernel writes 8 octets into a value that has them.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_COOKIE,
                (&raw mut cookie).cast(),
                &raw mut length,
            )
        };
        assert_eq!((failed, length), (0, 8));
        cookie
    }

    #[test]
    fn exactly_the_sockets_with_that_peer_are_listed_under_their_own_cookies() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let [one, two] = [(); 2].map(|()| TcpStream::connect(peer).unwrap());
        let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{}", peer.port()).parse().unwrap();
        let three = TcpStream::connect(mapped).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(peer).unwrap();
        let found = |vips: &[Vip]| -> Vec<u64> {
            connected_to(vips)
                .unwrap()
                .iter()
                .map(|socket| socket.cookie)
                .collect()
        };
        let mut expected = [cookie_of(&one), cookie_of(&two), cookie_of(&three)];
        expected.sort_unstable();
        assert_eq!(found(&[vip(peer, TCP)]), expected);
        assert_eq!(found(&[vip(peer, UDP)]), [cookie_of(&udp)]);
        let elsewhere = SocketAddr::new(peer.ip(), 1);
        assert!(found(&[vip(elsewhere, TCP), vip(elsewhere, UDP)]).is_empty());
        let many = |port| vip(SocketAddr::new("127.9.9.9".parse().unwrap(), port), TCP);
        let mut many: Vec<Vip> = (1..1_000).map(many).collect();
        many.push(vip(peer, TCP));
        assert_eq!(found(&many), expected, "the last of many");
    }

    #[test]
    fn a_peer_of_ipv6_is_read_too() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let stream = TcpStream::connect(peer).unwrap();
        let found = connected_to(&[vip(peer, TCP)]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].cookie, found[0].peer),
            (cookie_of(&stream), vip(peer, TCP))
        );
    }

    #[test]
    #[ignore = "needs root: opens more files than others may"]
    fn listing_ten_thousand_sockets_prints_its_time() {
        // This process has a socket for both ends of each connection.
        const COUNT: usize = 5_000;
        let mut files = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel writes one rlimit.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) }, 0);
        files.rlim_cur = files.rlim_max;
        assert_eq!(
            // SAFETY: the kernel reads one rlimit.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files) },
            0
        );
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let open = |_| (TcpStream::connect(peer).unwrap(), listener.accept().unwrap());
        let _open: Vec<_> = (0..COUNT).map(open).collect();
        for (port, expected) in [(peer.port(), COUNT), (1, 0)] {
            let began = std::time::Instant::now();
            let found = connected_to(&[vip(SocketAddr::new(peer.ip(), port), TCP)]).unwrap();
            println!("{expected} of {} sockets: {:?}", 2 * COUNT, began.elapsed());
            assert_eq!(found.len(), expected);
        }
    }

    proptest! {
        #[test]
        fn no_octets_make_the_parser_panic(octets: Vec<u8>) {
            let _ = connected(&octets, TCP);
        }
    }
}

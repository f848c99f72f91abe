//! Counts the packets that a host sends or receives.

use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, Socket, Type};

use super::forge::TCP;
use crate::net::NetNs;

/// `ETH_P_ALL`.
const EVERY: u16 = 0x0003;
const UDP: u8 = 17;
const SYN: u8 = 0x02;
/// The flags of an answer to [`SYN`].
const SYN_ACK: u8 = 0x12;

/// Sees each packet of a network namespace at its interfaces: before the ingress hooks of TC, after
/// the egress hooks.
#[derive(Debug)]
pub struct Sniffer {
    socket: Socket,
    to: Vec<SocketAddr>,
}

impl Sniffer {
    /// From now on notes the packets to these destinations that open a TCP connection, and UDP
    /// ones. Those of kept connections are sent again at any time. Needs root.
    pub fn new(netns: &NetNs, to: Vec<SocketAddr>) -> Result<Self> {
        let every = Protocol::from(i32::from(EVERY.to_be()));
        let socket =
            netns.io(|| Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), Some(every)));
        let socket = socket.with_context(|| format!("cannot sniff in {}", netns.name()))?;
        Ok(Self { socket, to })
    }

    /// How many such packets there were since the last time.
    pub fn packets(&mut self) -> Result<usize> {
        let mut packets = 0;
        let mut start = [0; 128];
        loop {
            match self.socket.read(&mut start) {
                Ok(length) => {
                    let to = destination(&start[..length]);
                    packets += usize::from(to.is_some_and(|to| self.to.contains(&to)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(packets),
                Err(error) => return Err(error).context("cannot sniff"),
            }
        }
    }
}

/// Of a TCP SYN or UDP packet that begins with its IP header; none for others, and for extension
/// headers.
fn destination(packet: &[u8]) -> Option<SocketAddr> {
    let (protocol, ip, transport_at) = match packet.first()? >> 4 {
        4 => {
            let ip: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            (
                packet[9],
                IpAddr::from(Ipv4Addr::from(ip)),
                usize::from(packet[0] & 0xf) * 4,
            )
        }
        6 => {
            let ip: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (packet[6], IpAddr::from(Ipv6Addr::from(ip)), 40)
        }
        _ => return None,
    };
    let port = packet
        .get(transport_at + 2..transport_at + 4)?
        .try_into()
        .ok()?;
    let opens = match protocol {
        TCP => packet.get(transport_at + 13)? & SYN_ACK == SYN,
        UDP => true,
        _ => false,
    };
    opens.then(|| SocketAddr::new(ip, u16::from_be_bytes(port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    #[ignore = "needs root: makes a network namespace"]
    fn a_sniffer_counts_the_packets_to_its_destinations_and_no_others() {
        let netns = NetNs::new("sniffed").unwrap();
        netns.ip(&["link set lo up"]).unwrap();
        for at in ["127.0.0.1:80", "[::1]:80"] {
            let at: SocketAddr = at.parse().unwrap();
            let mut sniffer = Sniffer::new(&netns, vec![at]).unwrap();
            let send = |port| {
                let to = SocketAddr::new(at.ip(), port);
                netns.run(|| {
                    UdpSocket::bind((at.ip(), 0))
                        .unwrap()
                        .send_to(b"x", to)
                        .unwrap()
                })
            };
            send(81).unwrap();
            assert_eq!(sniffer.packets().unwrap(), 0);
            send(80).unwrap();
            // Loopback shows it when it leaves, and when it arrives.
            assert_eq!(sniffer.packets().unwrap(), 2);
            assert_eq!(sniffer.packets().unwrap(), 0);
        }
    }

    #[test]
    #[ignore = "needs root: makes a network namespace"]
    fn a_sniffer_counts_the_opening_of_a_connection_and_nothing_that_is_sent_later() {
        let netns = NetNs::new("sniffed").unwrap();
        netns.ip(&["link set lo up"]).unwrap();
        let at: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let listener = netns.run(|| TcpListener::bind(at).unwrap()).unwrap();
        let mut sniffer = Sniffer::new(&netns, vec![at]).unwrap();
        let mut client = netns.run(|| TcpStream::connect(at).unwrap()).unwrap();
        assert_eq!(sniffer.packets().unwrap(), 2);
        client.write_all(b"x").unwrap();
        drop(client);
        assert_eq!(sniffer.packets().unwrap(), 0);
        drop(listener);
    }
}

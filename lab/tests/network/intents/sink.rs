//! Pod X: counts datagrams by their aims, and answers streams with a digest of the data.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use epguard_lab::net::NetNs;
use socket2::{Domain, SockRef, Socket, Type};

/// The running process of pod X. Its threads end with the test process.
#[derive(Debug)]
pub(crate) struct Sink {
    arrived: Arc<[AtomicU64; 3]>,
    stop: Arc<UdpSocket>,
}

impl Sink {
    /// Serves a UDP and a TCP port on all addresses.
    pub(crate) fn start(netns: &NetNs, port: u16) -> Self {
        let arrived = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (datagrams, streams) = netns.run(|| (bind(Type::DGRAM, port), bind(Type::STREAM, port))).unwrap();
        streams.listen(1024).unwrap();
        let datagrams = Arc::new(UdpSocket::from(datagrams));
        SockRef::from(&*datagrams).set_recv_buffer_size(1 << 23).unwrap();
        datagrams.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        let (counted, socket) = (Arc::clone(&arrived), Arc::clone(&datagrams));
        std::thread::spawn(move || count(&socket, &counted));
        let streams = TcpListener::from(streams);
        std::thread::spawn(move || {
            for stream in streams.incoming().flatten() {
                std::thread::spawn(move || digest(stream));
            }
        });
        Self { arrived, stop: datagrams }
    }

    /// Datagrams received, by aim.
    pub(crate) fn arrived(&self) -> [u64; 3] {
        std::array::from_fn(|aim| self.arrived[aim].load(Ordering::Relaxed))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = SockRef::from(&*self.stop).shutdown(std::net::Shutdown::Both);
    }
}

fn bind(kind: Type, port: u16) -> Socket {
    let socket = Socket::new(Domain::IPV6, kind, None).unwrap();
    socket.set_only_v6(false).unwrap();
    let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
    socket.bind(&any.into()).unwrap();
    socket
}

fn count(socket: &UdpSocket, arrived: &[AtomicU64; 3]) {
    let mut datagram = [0; 8192];
    while let Ok(length) = socket.recv(&mut datagram) {
        match datagram[..length].first() {
            Some(aim @ 0..=2) => arrived[usize::from(*aim)].fetch_add(1, Ordering::Relaxed),
            _ => break,
        };
    }
}

/// Answers with the length and the checksum of all data up to the end of the stream.
fn digest(mut stream: std::net::TcpStream) -> std::io::Result<()> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    stream.write_all(&summary(&received))
}

/// Length and FNV-1a of `octets`.
pub(crate) fn summary(octets: &[u8]) -> [u8; 16] {
    let step = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    let hash = octets.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let mut summary = [0; 16];
    summary[..8].copy_from_slice(&(octets.len() as u64).to_be_bytes());
    summary[8..].copy_from_slice(&hash.to_be_bytes());
    summary
}

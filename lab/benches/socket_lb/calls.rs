//! What is measured: calls of one thread. The kernel serves them on the same processor, mostly before they return.

use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

pub(crate) const COSTS: usize = NAMES.len();
/// In the order of the figures of a round.
pub(crate) const NAMES: [&str; 6] = [
    "TCP to a pod: socket, connect, close",
    "TCP to a pod: connect",
    "UDP to a pod: sendto",
    "TCP to itself: socket, connect, close",
    "TCP to itself: connect",
    "UDP to itself: sendto",
];

/// Calls of one figure: no more than a listener's queue or a socket's buffer takes.
const CALLS: u32 = 100;

/// A server on both protocols, which answers nothing.
pub(crate) struct Server {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Server {
    /// In the network namespace of the calling thread.
    pub(crate) fn new(at: SocketAddr) -> Self {
        let (tcp, udp) = (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap());
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        Self { tcp, udp }
    }

    /// Nanoseconds for each call to the server by this address.
    pub(crate) fn measure(&self, to: SocketAddr) -> [f64; 3] {
        let to = SockAddr::from(to);
        let whole = time(|| stream().connect(&to).unwrap());
        self.accept();
        let sockets: Vec<Socket> = (0..CALLS).map(|_| stream()).collect();
        let mut fresh = sockets.iter();
        let connect = time(|| fresh.next().unwrap().connect(&to).unwrap());
        drop(sockets);
        self.accept();
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let send = time(|| {
            socket.send_to(b"request\n", &to).unwrap();
        });
        take(|| self.udp.recv(&mut [0; 16]));
        [whole, connect, send]
    }

    fn accept(&self) {
        take(|| self.tcp.accept());
    }
}

/// Takes what the calls of one figure have left at the server.
fn take<T>(mut one: impl FnMut() -> io::Result<T>) {
    let begun = Instant::now();
    let mut taken = 0;
    while taken < CALLS {
        match one() {
            Ok(_) => taken += 1,
            Err(error) => assert!(
                error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < Duration::from_secs(5),
                "{taken} of {CALLS} calls arrived: {error}"
            ),
        }
    }
}

/// A socket that leaves no port behind when it is closed.
fn stream() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    socket
}

fn time(mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..CALLS).for_each(|_| call());
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

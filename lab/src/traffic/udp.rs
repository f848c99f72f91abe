//! One UDP socket for many destinations.

use nix::libc;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{SockRef, Socket};

use super::flow::{left, lost_on_the_way};
use super::{Answer, Outcome, server};

/// An unconnected UDP socket: every request uses the same source port, for all destinations.
#[derive(Debug)]
pub struct UdpPeer {
    socket: UdpSocket,
    size: usize,
}

impl UdpPeer {
    /// Takes a bound socket and makes the kernel queue ICMP errors on it, with the destination of
    /// each. Its requests have at least `size` octets.
    pub(super) fn new(socket: Socket, size: usize) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        if socket.local_addr()?.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
        }
        Ok(Self { socket, size })
    }

    /// Sends a request to `to` and waits for the reply, or the ICMP error, from there.
    pub fn ask(&self, to: SocketAddr, timeout: Duration) -> Answer {
        let start = Instant::now();
        let asked = self.try_ask(to, start + timeout);
        let outcome = asked.map_or_else(Outcome::from, Outcome::Reply);
        Answer::now(outcome, start, self.socket.local_addr().ok())
    }

    fn try_ask(&self, to: SocketAddr, deadline: Instant) -> io::Result<String> {
        let request = server::request();
        let mut datagram = [0; 2048];
        // An error about an earlier destination would be returned instead of sending.
        while self.next_error().is_ok() {}
        self.socket
            .send_to(&server::encode(request, self.size), to)
            .map(drop)
            .or_else(lost_on_the_way)?;
        loop {
            self.socket.set_read_timeout(left(deadline)?)?;
            match self.socket.recv_from(&mut datagram) {
                Ok((length, from)) => {
                    if let Some(name) = server::replier(&datagram[..length], request)
                        && from == to
                    {
                        return Ok(name);
                    }
                }
                Err(error) => {
                    let timed_out = error.kind() == ErrorKind::WouldBlock;
                    if timed_out || self.next_error().is_ok_and(|about| about == Some(to)) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Takes an ICMP error off the queue and returns the destination that it is about.
    fn next_error(&self) -> io::Result<Option<SocketAddr>> {
        let mut quoted = [MaybeUninit::uninit(); 64];
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let (_, destination) =
            SockRef::from(&self.socket).recv_from_with_flags(&mut quoted, flags)?;
        Ok(destination.as_socket())
    }
}

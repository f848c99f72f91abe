//! Flows that stay open.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::libc::{self, sockaddr, socklen_t};
use socket2::Socket;

use super::{Answer, Outcome, server};
use crate::proxy::Protocol;

/// A connected TCP or UDP socket. Dropping it resets a TCP connection: none of its packets is on
/// the way afterwards.
#[derive(Debug)]
pub struct Flow {
    local: Option<SocketAddr>,
    connection: Connection,
    size: usize,
}

#[derive(Debug)]
enum Connection {
    Tcp {
        stream: BufReader<TcpStream>,
        line: Vec<u8>,
    },
    Udp(UdpSocket),
}

impl Flow {
    /// Its requests have at least `size` octets.
    pub(super) fn new(
        protocol: Protocol,
        local: Option<SocketAddr>,
        socket: Socket,
        size: usize,
    ) -> Self {
        let connection = match protocol {
            Protocol::Udp => Connection::Udp(socket.into()),
            Protocol::Tcp | Protocol::Sctp => Connection::Tcp {
                stream: BufReader::new(socket.into()),
                line: Vec::new(),
            },
        };
        Self {
            local,
            connection,
            size,
        }
    }

    /// Makes a request on the flow and waits for the reply.
    pub fn ask(&mut self, timeout: Duration) -> Answer {
        let start = Instant::now();
        let deadline = start + timeout;
        let request = Request::new(self.size);
        let replier = match &mut self.connection {
            Connection::Tcp { stream, line } => ask_stream(stream, line, &request, deadline),
            Connection::Udp(socket) => ask_datagram(socket, &request, deadline),
        };
        let outcome = replier.map_or_else(Outcome::from, Outcome::Reply);
        Answer::now(outcome, start, self.local)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Connection::Tcp { stream, .. } = &self.connection {
            abort(stream.get_ref());
        }
    }
}

/// The time left until `deadline`, or an error after it.
pub(super) fn left(deadline: Instant) -> io::Result<Option<Duration>> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(Some(left))
    }
}

/// Receives a datagram before the deadline. A signal does not end the wait: the kernel restarts no
/// call that has a timeout (signal(7)).
pub(super) fn receive(
    socket: &UdpSocket,
    datagram: &mut [u8],
    deadline: Instant,
) -> io::Result<usize> {
    loop {
        socket.set_read_timeout(left(deadline)?)?;
        match socket.recv(datagram) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// Ignores the error of a datagram that the sender's own host dropped, in a filter (`EPERM`) or at
/// egress (`ENOBUFS`). A drop at a remote host gives no such error; in both cases the caller waits
/// for a reply or an ICMP error.
pub(super) fn lost_on_the_way(error: io::Error) -> io::Result<()> {
    if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOBUFS)) {
        Ok(())
    } else {
        Err(error)
    }
}

struct Request {
    number: u64,
    /// What is sent.
    octets: Vec<u8>,
}

impl Request {
    fn new(size: usize) -> Self {
        let number = server::request();
        Self {
            number,
            octets: server::encode(number, size),
        }
    }
}

/// `line` keeps the part of a reply that had arrived at a deadline.
fn ask_stream(
    stream: &mut BufReader<TcpStream>,
    line: &mut Vec<u8>,
    request: &Request,
    deadline: Instant,
) -> io::Result<String> {
    stream.get_ref().set_write_timeout(left(deadline)?)?;
    stream.get_mut().write_all(&request.octets)?;
    loop {
        stream.get_ref().set_read_timeout(left(deadline)?)?;
        stream.read_until(b'\n', line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let replier = server::replier(line, request.number);
        line.clear();
        if let Some(name) = replier {
            return Ok(name);
        }
    }
}

fn ask_datagram(socket: &UdpSocket, request: &Request, deadline: Instant) -> io::Result<String> {
    let mut datagram = [0; 2048];
    // An error of an earlier request would be returned instead of sending.
    socket.take_error()?;
    socket
        .send(&request.octets)
        .map(drop)
        .or_else(lost_on_the_way)?;
    loop {
        let length = receive(socket, &mut datagram, deadline)?;
        if let Some(name) = server::replier(&datagram[..length], request.number) {
            return Ok(name);
        }
    }
}

/// Disconnects: the RST is sent before this returns, and nothing after it. Closing would do the
/// same only after the last copy of the descriptor, and a child process of ours has one between its
/// fork and its exec.
pub fn abort(socket: &impl AsFd) {
    const LENGTH: socklen_t = 16;
    const { assert!(size_of::<sockaddr>() == LENGTH as usize) };
    // Connecting to AF_UNSPEC disconnects a socket (connect(2)).
    let nothing = sockaddr {
        sa_family: 0,
        sa_data: [0; 14],
    };
    // SAFETY: the descriptor is open while it is borrowed, and `nothing` has LENGTH octets.
    let _ = unsafe { libc::connect(socket.as_fd().as_raw_fd(), &raw const nothing, LENGTH) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};
    use std::thread::{sleep, spawn};

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    fn a_signal_does_not_end_the_wait_for_a_datagram() {
        let action = SigAction::new(
            SigHandler::Handler(ignore),
            SaFlags::empty(),
            SigSet::empty(),
        );
        // SAFETY: the handler does nothing.
        unsafe { sigaction(Signal::SIGUSR2, &action) }.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        // SAFETY: no pointers.
        let waiting = unsafe { libc::pthread_self() };
        let sender = spawn(move || {
            sleep(Duration::from_millis(100));
            // SAFETY: the thread waits for the datagram, so it exists.
            assert_eq!(unsafe { libc::pthread_kill(waiting, libc::SIGUSR2) }, 0);
            sleep(Duration::from_millis(100));
            UdpSocket::bind("127.0.0.1:0")
                .unwrap()
                .send_to(b"late", to)
                .unwrap();
        });
        let mut datagram = [0; 8];
        let received = receive(
            &socket,
            &mut datagram,
            Instant::now() + Duration::from_mins(1),
        );
        assert_eq!(&datagram[..received.unwrap()], b"late");
        sender.join().unwrap();
    }

    #[test]
    fn a_connection_is_reset_while_another_process_has_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let _copy = stream.try_clone().unwrap();
        peer.set_nonblocking(true).unwrap();
        abort(&stream);
        assert_eq!(
            peer.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
    }
}

//! Ends a TCP connection at once, even while another process has its socket open.

use std::os::fd::{AsFd, AsRawFd};

use libc::{sockaddr, socklen_t};

/// Disconnects: the RST is sent before this returns, and nothing after it. Closing would do the same only after the last
/// copy of the descriptor, and a child process of ours has one between its fork and its exec.
pub fn abort(socket: &impl AsFd) {
    const LENGTH: socklen_t = 16;
    const { assert!(size_of::<sockaddr>() == LENGTH as usize) };
    // Connecting to AF_UNSPEC disconnects a socket (connect(2)).
    let nothing = sockaddr { sa_family: 0, sa_data: [0; 14] };
    // SAFETY: the descriptor is open while it is borrowed, and `nothing` has LENGTH octets.
    let _ = unsafe { libc::connect(socket.as_fd().as_raw_fd(), &raw const nothing, LENGTH) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_reset_while_another_process_has_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let _copy = stream.try_clone().unwrap();
        peer.set_nonblocking(true).unwrap();
        abort(&stream);
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

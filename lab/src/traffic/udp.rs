//! One UDP socket for many destinations.

use std::net::SocketAddr;
use std::time::Duration;

use super::Answer;

/// An unconnected UDP socket: every request uses the same source port, whatever its destination.
#[derive(Debug)]
pub struct UdpPeer {}

impl UdpPeer {
    /// Sends a request to `to` and waits for the reply that comes from there.
    pub fn ask(&self, to: SocketAddr, timeout: Duration) -> Answer {
        let _ = (to, timeout);
        todo!()
    }
}

//! A client's request.

use crate::proxy::Protocol;
use std::net::SocketAddr;
use std::time::Duration;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// TCP (connect, request, reply), UDP (request, reply) or SCTP (INIT, INIT ACK).
    pub protocol: Protocol,
    /// The destination.
    pub to: SocketAddr,
    /// The source; the kernel chooses for port 0 and an unspecified address. Several flows to different destinations may use
    /// a port at once, and a port is free again at once after a call.
    pub from: Option<SocketAddr>,
    /// Time limit for the whole call.
    pub timeout: Duration,
}

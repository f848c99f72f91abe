//! A request to make.

use crate::proxy::Protocol;
use std::net::SocketAddr;
use std::time::Duration;

/// A request to make.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// TCP (connect, request, reply), UDP (request, reply) or SCTP (INIT, INIT ACK).
    pub protocol: Protocol,
    /// The destination.
    pub to: SocketAddr,
    /// The source; port 0 and an unspecified address leave the choice to the kernel. A port may be used by several flows to
    /// different destinations at once, and again at once after a call.
    pub from: Option<SocketAddr>,
    /// The time for all of it.
    pub timeout: Duration,
}

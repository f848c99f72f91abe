//! What a client saw.

use std::net::SocketAddr;
use std::time::Duration;

/// How a request ended, as the client's socket tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This pod answered.
    Reply(String),
    /// `ECONNREFUSED`: a TCP RST on connect, or ICMP port unreachable.
    Refused,
    /// `ECONNRESET` or `EPIPE`, or the connection was closed by the other side.
    Reset,
    /// `EHOSTUNREACH` or `ENETUNREACH`.
    Unreachable,
    /// Nothing came within the timeout.
    TimedOut,
    /// Any other error of the socket.
    Error(String),
}

/// A request's outcome and circumstances.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// From the first packet (for TCP the SYN) to the end.
    pub latency: Duration,
    /// The source address and port, where the socket got that far.
    pub local: Option<SocketAddr>,
}

//! Real clients and servers in the lab's namespaces. A server answers every request with its pod's
//! name.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::proxy::Protocol;

mod client;
mod flow;
mod forge;
mod server;
mod sniffer;
mod udp;

pub use client::Client;
pub use flow::{Flow, abort};
pub use forge::{Flood, Forged};
pub use server::Server;
pub use sniffer::Sniffer;
pub use udp::UdpPeer;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientCall {
    /// TCP (connect, request, reply) or UDP (request, reply).
    pub protocol: Protocol,
    /// The destination.
    pub to: SocketAddr,
    /// The source; the kernel chooses for port 0 and an unspecified address. Several flows to
    /// different destinations may use a port at once, and a port is free again at once after a
    /// call.
    pub from: Option<SocketAddr>,
    /// Time limit for the whole call.
    pub timeout: Duration,
}

/// How a request ended, by the result of the client's socket.
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

/// A request's outcome, duration and source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub outcome: Outcome,
    /// From the first packet (for TCP the SYN) to the end.
    pub latency: Duration,
    /// The source address and port, if the socket had one.
    pub local: Option<SocketAddr>,
}

impl Answer {
    /// The answer to a request that began then and ends now.
    fn now(outcome: Outcome, start: Instant, local: Option<SocketAddr>) -> Self {
        let latency = start.elapsed();
        Self {
            outcome,
            latency,
            local,
        }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Reset
            }
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Self::Unreachable,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::TimedOut,
            _ => Self::Error(error.to_string()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(pod) => write!(f, "a reply from {pod}"),
            Self::Refused => f.write_str("refused"),
            Self::Reset => f.write_str("reset"),
            Self::Unreachable => f.write_str("unreachable"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Error(error) => write!(f, "error: {error}"),
        }
    }
}

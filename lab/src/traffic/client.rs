//! Clients: one request on a socket of its own.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};

use super::{Answer, ClientCall, Flow, UdpPeer, abort};
use crate::net::{NetNs, socket_in};
use crate::proxy::Protocol;

/// Clients in one namespace: a pod, a node or the external host.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) netns: NetNs,
    cgroups: Vec<PathBuf>,
    size: usize,
}

impl Client {
    /// Clients in this namespace.
    pub fn new(netns: &NetNs) -> Self {
        Self {
            netns: netns.clone(),
            cgroups: Vec::new(),
            size: 0,
        }
    }

    /// The same, and their TCP and UDP sockets are made in these cgroups, one of each hierarchy.
    pub fn in_cgroups(self, cgroups: Vec<PathBuf>) -> Self {
        Self { cgroups, ..self }
    }

    /// The same, and their TCP and UDP requests have at least this many octets.
    pub fn sending(self, size: usize) -> Self {
        Self { size, ..self }
    }

    /// Makes one request on a new socket and closes it. Network errors are part of the answer.
    pub fn call(&self, call: ClientCall) -> Answer {
        let start = Instant::now();
        let answer = self.open(call).map_or_else(
            |unopened| unopened,
            |mut flow| flow.ask(call.timeout.saturating_sub(start.elapsed())),
        );
        Answer {
            latency: start.elapsed(),
            ..answer
        }
    }

    /// Opens a flow (for TCP: connects) that stays open and has made no request yet. `Err` is the
    /// result that prevented it.
    pub fn open(&self, call: ClientCall) -> Result<Flow, Answer> {
        let start = Instant::now();
        let mut local = None;
        let opened = self.netns.io(|| self.unconnected(call)).and_then(|socket| {
            let connected = socket.connect_timeout(&call.to.into(), call.timeout);
            local = socket
                .local_addr()
                .ok()
                .and_then(|address| address.as_socket());
            // An unanswered SYN would be sent again.
            connected.inspect_err(|_| abort(&socket)).map(|()| socket)
        });
        match opened {
            Ok(socket) => Ok(Flow::new(call.protocol, local, socket, self.size)),
            Err(error) => Err(Answer::now(error.into(), start, local)),
        }
    }

    /// A UDP socket that sends to many destinations from one source port.
    pub fn udp(&self, from: SocketAddr) -> Result<UdpPeer> {
        let bound = unless_closing(|| {
            self.netns.io(|| {
                let socket = self.socket(Domain::for_address(from), Type::DGRAM)?;
                socket.bind(&from.into())?;
                UdpPeer::new(socket, self.size)
            })
        });
        bound.with_context(|| {
            format!(
                "cannot bind a UDP socket to {from} in {}",
                self.netns.name()
            )
        })
    }

    fn unconnected(&self, call: ClientCall) -> io::Result<Socket> {
        let kind = match call.protocol {
            Protocol::Tcp => Type::STREAM,
            Protocol::Udp => Type::DGRAM,
            Protocol::Sctp => return Err(io::Error::other("the lab has no sockets of SCTP")),
        };
        let socket = self.socket(Domain::for_address(call.to), kind)?;
        if kind == Type::STREAM {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(from) = call.from {
            socket.set_reuse_address(true)?;
            socket.bind(&from.into())?;
        }
        Ok(socket)
    }

    /// In the network namespace of the calling thread.
    fn socket(&self, domain: Domain, kind: Type) -> io::Result<Socket> {
        if self.cgroups.is_empty() {
            Socket::new(domain, kind, None)
        } else {
            socket_in(&self.cgroups, domain, kind)
        }
    }
}

/// Tries again while the port seems to be in use: a child process of ours has a copy of a closed
/// socket between its fork and its exec.
pub(super) fn unless_closing<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::yield_now();
            }
            result => return result,
        }
    }
}

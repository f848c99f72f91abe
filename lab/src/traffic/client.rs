//! Clients: one request on a socket of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::{Answer, Flow};
use crate::net::NetNs;
use crate::proxy::Protocol;

/// A request to make.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// TCP (connect, request, reply) or UDP (request, reply).
    pub protocol: Protocol,
    /// The destination.
    pub to: SocketAddr,
    /// The source; port 0 and an unspecified address leave the choice to the kernel. A port may be used by several flows to
    /// different destinations at once, and again at once after a call.
    pub from: Option<SocketAddr>,
    /// The time for all of it.
    pub timeout: Duration,
}

/// Clients in one namespace: a pod, a node or the external host.
#[derive(Clone, Debug)]
pub struct Client {
    netns: NetNs,
}

impl Client {
    /// Clients in this namespace.
    pub fn new(netns: &NetNs) -> Self {
        Self { netns: netns.clone() }
    }

    /// Makes one request on a new socket and closes it. What the network does is in the answer, never an error of this function.
    pub fn call(&self, call: Call) -> Answer {
        let _ = (call, &self.netns);
        todo!()
    }

    /// Opens a flow (for TCP: connects) that stays open and has made no request yet. `Err` is what kept it from opening.
    pub fn open(&self, call: Call) -> Result<Flow, Answer> {
        let _ = call;
        todo!()
    }

    /// A UDP socket that sends to many destinations from one source port.
    pub fn udp(&self, from: SocketAddr) -> Result<super::UdpPeer> {
        let _ = from;
        todo!()
    }
}

//! Servers that answer with their pod's name.

use anyhow::Result;

use crate::net::NetNs;
use crate::proxy::Protocol;

/// A port to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port number.
    pub port: u16,
}

/// The running process of a pod: serves ports on all addresses of its namespace, and keeps TCP connections open.
/// Dropping it kills it: every socket is closed at once. What the peers see of that depends on whether the pod's link is
/// still there ([`crate::net::Topology::remove_pod`]).
#[derive(Debug)]
pub struct Server {}

impl Server {
    /// Starts serving in `netns`; the ports accept when this returns.
    pub fn start(netns: &NetNs, name: &str, ports: &[Port]) -> Result<Self> {
        let _ = (netns, name, ports);
        todo!()
    }
}

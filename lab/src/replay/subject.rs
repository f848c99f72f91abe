//! The program under test: it gets watch events and returns its denials.

use super::stream::ApiEvent;
use crate::proxy::Protocol;
use anyhow::Result;
use epguard_common::Reason;
use std::{fmt, future::Future, net::IpAddr, time::Duration};

/// A program that turns watch events into denials.
pub trait Subject {
    /// Takes one event; `now` is the time since the recording began. `Reset` replaces the whole collection; `Closed` and
    /// `Resumed` are the beginning and end of an outage.
    /// An error if the subject can't take an object that an agent would have to take.
    fn feed(&mut self, now: Duration, event: &ApiEvent) -> impl Future<Output = Result<()>>;

    /// Everything denied now.
    fn denials(&mut self) -> impl Future<Output = Result<Vec<Denial>>>;
}

/// A denied pair of Service and endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Denial {
    /// Service and endpoint.
    pub key: Key,
    /// The reason, and which packets are denied.
    pub shape: Shape,
    /// UID of the pod that was meant.
    pub meant: String,
    /// UID of the pod that has the IP now, if the reason needs one.
    pub owner: Option<String>,
}

/// The key of a denial: Service, IP and target port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `namespace/name`.
    pub service: String,
    /// The endpoint's IP.
    pub ip: IpAddr,
    /// The endpoint's port (the target port, not the Service's), host order.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// A verdict without names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Which proof; never `terminated`, which rests on the node's routes.
    pub reason: Reason,
    /// Only TCP SYN and SCTP INIT, because the meant UID is Retired and may still serve what it began.
    pub openers_only: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = if self.openers_only { " (openers)" } else { "" };
        write!(f, "{}{packets}", self.reason.as_str())
    }
}

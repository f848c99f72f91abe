//! The program under test: it gets watch events and returns its denials.

use super::stream::ApiEvent;
use crate::proxy::Protocol;
use epguard_common::Reason;
use serde::{Serialize, Serializer};
use std::{fmt, net::IpAddr, time::Duration};

/// A state machine that turns watch events into denials.
pub trait Subject {
    /// Takes one event; `now` is virtual time since the recording began.
    /// An error if the subject can't take an object that an agent would have to take.
    fn feed(&mut self, now: Duration, event: &ApiEvent) -> anyhow::Result<()>;

    /// Everything denied now.
    fn denials(&self) -> Vec<Denial>;
}

/// A denied pair of Service and endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Denial {
    /// Service and endpoint.
    #[serde(flatten)]
    pub key: Key,
    /// The reason, and which packets are denied.
    #[serde(flatten)]
    pub shape: Shape,
    /// UID of the pod that was meant.
    pub meant: String,
    /// UID of the pod that has the IP now, if the reason needs one.
    pub owner: Option<String>,
}

/// The key of a denial: Service, IP and target port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Shape {
    /// Which proof; never `terminated`, which rests on the node's routes.
    #[serde(serialize_with = "reason")]
    pub reason: Reason,
    /// Only TCP SYN and SCTP INIT, because the meant UID is Retired and may still serve what it began.
    pub openers_only: bool,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.service, self.endpoint())
    }
}

impl Key {
    /// `10.244.1.10:8080`, with the protocol where it isn't TCP.
    pub fn endpoint(&self) -> String {
        let endpoint = std::net::SocketAddr::new(self.ip, self.port);
        match self.protocol {
            Protocol::Tcp => endpoint.to_string(),
            Protocol::Udp => format!("{endpoint}/udp"),
            Protocol::Sctp => format!("{endpoint}/sctp"),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = if self.openers_only { " (openers)" } else { "" };
        write!(f, "{}{packets}", self.reason.as_str())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn reason<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

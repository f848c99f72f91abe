//! Who is on trial: anything that is fed watch events and says what it denies.

use super::stream::ApiEvent;
use anyhow::Result;
use serde::Serialize;
use std::{fmt, net::IpAddr, time::Duration};

/// A state machine that turns watch events into denials.
pub trait Subject {
    /// Takes one event; `now` is virtual time since the recording began.
    ///
    /// # Errors
    /// If the subject can't take an object that an agent would have to take.
    fn feed(&mut self, now: Duration, event: &ApiEvent) -> Result<()>;

    /// Everything denied now.
    fn denials(&self) -> Vec<Denial>;
}

/// A pair (Service, endpoint) to which packets are denied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Denial {
    /// What the packets were aimed at and where they would go.
    #[serde(flatten)]
    pub key: Key,
    /// Why, and which packets.
    #[serde(flatten)]
    pub shape: Shape,
    /// UID of the pod that was meant.
    pub meant: String,
    /// UID of the pod that has the IP now, where that is the reason.
    pub owner: Option<String>,
}

/// Service, IP and target port: what a verdict is about.
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

/// A verdict without the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Shape {
    /// Which proof.
    pub reason: Reason,
    /// Only TCP SYN and SCTP INIT, because the meant UID is Retired and may still serve what it began.
    pub openers_only: bool,
}

/// Transport protocols of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// The reasons that API evidence can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The meant UID is Dead and nobody claims the IP.
    DeadBackend,
    /// A live pod that isn't the Service's claims the IP.
    Reused,
    /// The meant UID is Retired and nobody else claims the IP.
    RetiredBackend,
}

impl Protocol {
    /// As the API writes it; TCP is the default.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.service, self.endpoint())
    }
}

impl Key {
    /// `10.244.1.10:8080`, with the protocol where it isn't TCP.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let endpoint = std::net::SocketAddr::new(self.ip, self.port);
        match self.protocol {
            Protocol::Tcp => endpoint.to_string(),
            Protocol::Udp => format!("{endpoint}/udp"),
            Protocol::Sctp => format!("{endpoint}/sctp"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadBackend => "dead-backend",
            Self::Reused => "reused",
            Self::RetiredBackend => "retired-backend",
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = if self.openers_only { " (openers)" } else { "" };
        write!(f, "{}{packets}", self.reason)
    }
}

//! An endpoint as packets show it, and the pods that were named behind it.

use crate::facts::{PortName, Protocol};
use epguard_common::{Addr, Uid};
use std::time::Duration;

/// An (IP, port) of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The endpoint's IP.
    pub ip: Addr,
    /// Host order.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

impl Endpoint {
    /// The first and the last socket of all.
    #[must_use]
    pub fn range() -> (Self, Self) {
        let (first, last) = (Addr { octets: [0; 16] }, Addr { octets: [255; 16] });
        (Self::range_at(first).0, Self::range_at(last).1)
    }

    /// The first and the last socket of an IP.
    #[must_use]
    pub fn range_at(ip: Addr) -> (Self, Self) {
        (
            Self {
                ip,
                port: 0,
                protocol: Protocol::Tcp,
            },
            Self {
                ip,
                port: u16::MAX,
                protocol: Protocol::Sctp,
            },
        )
    }
}

/// How long an endpoint counts as one that packets were sent to, after it was ready last.
pub const RECENTLY: Duration = Duration::from_mins(5);

/// A pod that a Service named as the one behind a socket; `None` where the slice named no pod.
pub type Target = Option<Uid>;

/// When, and in how many slices, a target is listed behind a socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing {
    /// Slices that list it now.
    pub slices: usize,
    /// When a slice listed it last, if none does now.
    pub last: Duration,
    /// The last packet aimed at it while it was denied.
    pub hit: Duration,
    /// Slices that list it as ready now.
    pub ready: usize,
    /// When a slice listed it as ready last, if none does now.
    pub last_ready: Option<Duration>,
    /// Which of the Service's ports it stands for.
    pub port: Port,
}

/// The name of a port, as far as slices agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Port {
    /// No slice has named it.
    #[default]
    Unknown,
    /// All slices gave the same name.
    Named(PortName),
    /// Several names for one number: the port meant is unknown.
    Several,
}

impl Port {
    /// Notes that a slice gives the port this name.
    pub fn name(&mut self, name: PortName) {
        *self = match *self {
            Self::Unknown => Self::Named(name),
            Self::Named(known) if known == name => Self::Named(name),
            Self::Named(_) | Self::Several => Self::Several,
        };
    }
}

impl Listing {
    /// True if a slice lists it now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.slices > 0
    }

    /// When it was last listed or a packet was last aimed at it, if no slice lists it now.
    #[must_use]
    pub fn used(&self) -> Duration {
        self.last.max(self.hit)
    }

    /// Whether a slice listed it as ready at any time in the last [`RECENTLY`].
    #[must_use]
    pub fn is_recently_ready(&self, now: Duration) -> bool {
        let recently = |last| now.saturating_sub(last) < RECENTLY;
        self.ready > 0 || self.last_ready.is_some_and(recently)
    }
}

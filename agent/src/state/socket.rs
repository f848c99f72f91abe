//! An endpoint as packets see it, and the pods that were named behind it.

use crate::facts::Protocol;
use epguard_common::{Addr, Uid};
use std::time::Duration;

/// An (IP, port) of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Socket {
    /// The endpoint's IP.
    pub ip: Addr,
    /// Host order.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
}

impl Socket {
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

/// A pod that a Service named as the one behind a socket; `None` where the slice named no pod.
pub type Target = Option<Uid>;

/// How long a target has been known behind a socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing {
    /// Slices that list it now.
    pub slices: usize,
    /// When a slice listed it last, if none does now.
    pub last: Duration,
    /// The last packet aimed at it while it was denied.
    pub hit: Duration,
}

impl Listing {
    /// Whether a slice lists it now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.slices > 0
    }

    /// When it was listed or aimed at last, if no slice lists it now.
    #[must_use]
    pub fn used(&self) -> Duration {
        self.last.max(self.hit)
    }
}

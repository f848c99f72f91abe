//! An endpoint as packets show it, and the pods that were named behind it.

use crate::facts::{PortName, Protocol};
use crate::state::index::Moment;
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
    /// The first and the last socket of an IP.
    #[must_use]
    pub fn range_at(ip: Addr) -> (Self, Self) {
        (Self { ip, port: 0, protocol: Protocol::Tcp }, Self { ip, port: u16::MAX, protocol: Protocol::Sctp })
    }
}

/// How long an endpoint counts as one that packets were sent to, after it was ready last.
pub const RECENTLY: Duration = Duration::from_mins(5);

/// A pod that a Service named as the one behind a socket; `None` where the slice named no pod.
pub type Target = Option<Uid>;

/// When, and in how many slices, a target is listed behind a socket.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Slices that list it now.
    pub slices: u32,
    /// Slices that list it as ready now.
    pub ready: u32,
    /// When a slice listed it last, if none does now.
    pub last: Moment,
    /// When, besides, a packet was last aimed at it while it was denied.
    pub used: Moment,
    /// When a slice listed it as ready last, if none does now.
    last_ready: Option<Moment>,
    /// Which of the Service's ports it stands for.
    pub port: Port,
    /// A slice that the `EndpointSlice` controller did not write lists it, or did.
    pub foreign: bool,
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

    /// Notes what another listing calls it.
    pub(in crate::state) fn merge(&mut self, other: Self) {
        match other {
            Self::Named(name) => self.name(name),
            Self::Several => *self = Self::Several,
            Self::Unknown => {}
        }
    }
}

impl Listing {
    /// True if a slice lists it now.
    pub fn is_current(&self) -> bool {
        self.slices > 0
    }

    /// Adds a slice that lists it. What slices called its port that list it no more does not count.
    pub fn add(&mut self, port: PortName, ready: bool, foreign: bool) {
        if !self.is_current() {
            self.port = Port::Unknown;
        }
        self.port.name(port);
        self.slices += 1;
        self.ready += u32::from(ready);
        self.foreign |= foreign;
    }

    /// Takes away a slice that listed it.
    pub fn take_away(&mut self, now: Duration, ready: bool) {
        self.slices = self.slices.saturating_sub(1);
        (self.last, self.used) = (now.into(), now.into());
        if ready {
            self.ready = self.ready.saturating_sub(1);
            self.last_ready = Some(now.into());
        }
    }

    /// Whether a slice listed it as ready at any time in the last [`RECENTLY`].
    pub fn is_recently_ready(&self, now: Duration) -> bool {
        let recently = |last: Moment| now.saturating_sub(last.into()) < RECENTLY;
        self.ready > 0 || self.last_ready.is_some_and(recently)
    }
}

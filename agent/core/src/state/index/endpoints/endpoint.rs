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
    /// Which of the Service's ports it stands for.
    pub port: Port,
    /// A slice that the `EndpointSlice` controller did not write lists it, or did.
    pub foreign: bool,
    past: Option<Box<Past>>,
}

/// What few listings have.
#[derive(Debug, Clone, Default)]
struct Past {
    /// The last packet aimed at it while it was denied.
    hit: Moment,
    /// When a slice listed it as ready last, if none does now.
    ready: Option<Moment>,
    /// Its last use, by which it was put into its place again.
    placed: Moment,
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
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.slices > 0
    }

    /// When it was last listed or a packet was last aimed at it, if no slice lists it now.
    #[must_use]
    pub fn used(&self) -> Moment {
        let hit = self.past.as_ref().map(|past| past.hit);
        self.last.max(hit.unwrap_or_default())
    }

    /// Its place among those that no slice lists: its last use, or an earlier one if packets have hit it since.
    pub(super) fn place(&self) -> Moment {
        let placed = self.past.as_ref().map(|past| past.placed);
        self.last.max(placed.unwrap_or_default())
    }

    /// Makes its last use its place.
    pub(super) fn put_in_place(&mut self) {
        self.past.get_or_insert_default().placed = self.used();
    }

    /// Notes a packet aimed at it while it was denied.
    pub fn hit(&mut self, now: Duration) {
        self.past.get_or_insert_default().hit = now.into();
    }

    /// Adds a slice that lists it.
    pub fn add(&mut self, ready: bool, foreign: bool) {
        self.slices += 1;
        self.ready += u32::from(ready);
        self.foreign |= foreign;
    }

    /// Takes away a slice that listed it.
    pub fn take_away(&mut self, now: Duration, ready: bool) {
        self.slices = self.slices.saturating_sub(1);
        self.last = now.into();
        if ready {
            self.ready = self.ready.saturating_sub(1);
        }
        if ready && self.ready == 0 {
            self.past.get_or_insert_default().ready = Some(now.into());
        }
    }

    /// Adds what another listing of the same target counts.
    pub(in crate::state) fn merge(&mut self, other: &Self) {
        if !self.is_current() {
            self.port = Port::Unknown;
        }
        self.slices += other.slices;
        self.ready += other.ready;
        self.port.merge(other.port);
        self.foreign |= other.foreign;
    }

    /// Whether a slice listed it as ready at any time in the last [`RECENTLY`].
    #[must_use]
    pub fn is_recently_ready(&self, now: Duration) -> bool {
        let recently = |last: Moment| now.saturating_sub(last.into()) < RECENTLY;
        let last = self.past.as_ref().and_then(|past| past.ready);
        self.ready > 0 || last.is_some_and(recently)
    }
}

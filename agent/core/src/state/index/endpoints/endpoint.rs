//! An endpoint as packets show it, and the endpoints of one Service, with the pods that were named
//! behind them.

use crate::facts::{PortName, Protocol, Text};
use crate::sorted_map::SortedMap;
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
    /// Notes what a slice, or another listing, calls it.
    pub(crate) fn merge(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Unknown, only) | (only, Self::Unknown) => only,
            (one, other) if one == other => one,
            _ => Self::Several,
        };
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
        self.port.merge(Port::Named(port));
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

    /// How many pods another writer lists here, or did.
    fn foreign_pods(&self, target: Target) -> usize {
        usize::from(self.foreign && target.is_some())
    }

    /// Whether a slice listed it as ready at any time in the last [`RECENTLY`].
    pub fn is_recently_ready(&self, now: Duration) -> bool {
        let recently = |last: Moment| now.saturating_sub(last.into()) < RECENTLY;
        self.ready > 0 || self.last_ready.is_some_and(recently)
    }
}

/// All endpoints of a Service, each with the pods that were named behind it.
pub type Endpoints = SortedMap<(Endpoint, Target), Listing>;

/// What slices show of a Service, or showed recently.
#[derive(Debug, Clone, Default)]
pub struct ServiceEndpoints {
    /// Its endpoints.
    pub endpoints: Endpoints,
    /// How many listings of pods have another writer than the `EndpointSlice` controller, or had.
    pub foreign: usize,
    /// Namespaces of the pods that slices name, or named while the Service had endpoints.
    pub namespaces: Vec<Text>,
}

impl ServiceEndpoints {
    /// Edits the listing of a target. True if it is new.
    pub fn edit(&mut self, key: (Endpoint, Target), edit: impl FnOnce(&mut Listing)) -> bool {
        let Some(listing) = self.endpoints.get_mut(&key) else {
            let mut listing = Listing::default();
            edit(&mut listing);
            self.foreign += listing.foreign_pods(key.1);
            self.endpoints.insert(key, listing);
            return true;
        };
        self.foreign -= listing.foreign_pods(key.1);
        edit(listing);
        self.foreign += listing.foreign_pods(key.1);
        false
    }

    /// Removes the listing of a target.
    pub fn remove(&mut self, key: &(Endpoint, Target)) {
        if self.foreign > 0
            && let Some(listing) = self.endpoints.get(key)
        {
            self.foreign -= listing.foreign_pods(key.1);
        }
        self.endpoints.remove(key);
    }
}

/// The pods that were named behind one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a> {
    pub(super) of: &'a Endpoints,
    pub(super) endpoint: &'a Endpoint,
}

/// The greatest target of an endpoint.
const LAST: Target = Some(Uid {
    octets: [u8::MAX; 16],
});

/// Every target at an IP, on any port.
pub(super) fn targets_at(of: &Endpoints, ip: Addr) -> impl Iterator<Item = (Target, &Listing)> {
    let from = of.from((Endpoint::range_at(ip).0, None));
    let own = from.take_while(move |((endpoint, _), _)| endpoint.ip == ip);
    own.map(|((_, target), listing)| (*target, listing))
}

/// The endpoints at an IP.
pub(super) fn entries_at(
    of: &Endpoints,
    ip: Addr,
) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
    grouped(of, (Endpoint::range_at(ip).0, None)).take_while(move |(endpoint, _)| endpoint.ip == ip)
}

/// The endpoints of all greater IPs, or of all.
pub(super) fn after(
    of: &Endpoints,
    ip: Option<Addr>,
) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
    let first = ip.map_or((Endpoint::range_at(Addr::default()).0, None), |ip| {
        (Endpoint::range_at(ip).1, LAST)
    });
    grouped(of, first).skip_while(move |(endpoint, _)| Some(endpoint.ip) == ip)
}

fn grouped(
    of: &Endpoints,
    first: (Endpoint, Target),
) -> impl Iterator<Item = (&Endpoint, Targets<'_>)> {
    let mut rest = of.from(first).peekable();
    std::iter::from_fn(move || {
        let ((endpoint, _), _) = rest.next()?;
        let is_same = |((other, _), _): &(&(Endpoint, Target), &Listing)| other == endpoint;
        if rest.next_if(is_same).is_some() {
            // Most endpoints have one target, some thousands.
            rest = of.from((*endpoint, LAST)).peekable();
            rest.next_if(is_same);
        }
        Some((endpoint, Targets { of, endpoint }))
    })
}

impl<'a> Targets<'a> {
    /// The pods, with their listings.
    pub fn iter(self) -> impl Iterator<Item = (Target, &'a Listing)> {
        let from = self.of.from((*self.endpoint, None));
        let own = from.take_while(move |((endpoint, _), _)| endpoint == self.endpoint);
        own.map(|((_, target), listing)| (*target, listing))
    }

    /// The pods.
    pub fn keys(self) -> impl Iterator<Item = Target> {
        self.iter().map(|(target, _)| target)
    }

    /// Their listings.
    pub fn values(self) -> impl Iterator<Item = &'a Listing> {
        self.iter().map(|(_, listing)| listing)
    }

    /// The listing of a pod.
    pub fn get(self, uid: Uid) -> Option<&'a Listing> {
        self.of.get(&(*self.endpoint, Some(uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> Endpoint {
        Endpoint {
            ip: Addr::v4([10, 0, 0, 1]),
            port,
            protocol: Protocol::Tcp,
        }
    }

    fn of(entries: &[(u16, u16)]) -> Endpoints {
        let target = |pod: u16| Uid::parse(&pod.to_string());
        entries
            .iter()
            .map(|(port, pod)| ((endpoint(*port), target(*pod)), Listing::default()))
            .collect()
    }

    #[test]
    fn each_endpoint_has_its_own_targets_however_many_there_are() {
        for counts in [[0, 1, 2], [1, 3, 9], [64, 65, 1], [1, 1, 1]] {
            let pods = |port: u16| (0..counts[usize::from(port)]).map(move |pod| (port, pod));
            let entries: Vec<(u16, u16)> = (0..3).flat_map(pods).collect();
            let mut endpoints = of(&entries);
            endpoints.extend([((endpoint(2), LAST), Listing::default())]);
            let found: Vec<(u16, usize)> = after(&endpoints, None)
                .map(|(endpoint, targets)| (endpoint.port, targets.iter().count()))
                .collect();
            let all = (0..3).map(|port| (port, usize::from(counts[usize::from(port)] + port / 2)));
            assert_eq!(
                found,
                all.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
            );
            assert_eq!(entries_at(&endpoints, endpoint(0).ip).count(), found.len());
            assert_eq!(after(&endpoints, Some(endpoint(0).ip)).count(), 0);
        }
    }
}

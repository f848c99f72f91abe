//! Topics: what an Event is about.

use epguard_common::{Outcome, Reason, Uid};
use epguard_core::facts::Name;
use epguard_core::state::{State, Trip};
use std::net::IpAddr;

/// An object of the API that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `Service` or `Pod`.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: Name,
    /// UID of the object. Without it `kubectl describe` does not find the Event.
    pub uid: Option<Uid>,
}

impl Subject {
    /// A Service, with its UID if that is known.
    #[must_use]
    pub fn service(state: &State, name: Name) -> Self {
        Self { kind: "Service", uid: state.service_uid(&name), name }
    }
}

/// The key of an Event: further occurrences only raise its count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic {
    /// The object that the Event is about.
    pub about: Subject,
    /// The Event's reason.
    pub reason: &'static str,
    /// The Event's action: what epguard does.
    pub action: &'static str,
    /// What was denied; none for an alarm.
    pub case: Option<Case>,
}

/// What the denied packets of one topic have in common, beside the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The endpoint's IP: a pod may have two.
    pub ip: IpAddr,
    /// The pod that was meant.
    pub meant: Uid,
    /// The pod that has the IP.
    pub hit: Uid,
    /// Which proof holds.
    pub reason: Reason,
    /// What became of the packets.
    pub outcome: Outcome,
}

impl Topic {
    /// The breaker's alarm about a Service.
    pub fn tripped(service: Subject) -> Self {
        Self { about: service, reason: "BreakerTripped", action: "HoldDenials", case: None }
    }
}

/// The text of the breaker's alarm.
pub fn alarm(trip: &Trip) -> String {
    format!(
        "{} of {} recently ready endpoints would be denied ({}); observed until a second list agrees",
        trip.held,
        trip.ready_recently,
        trip.why.as_str()
    )
}

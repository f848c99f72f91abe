//! What is said of whom.

use epguard_common::Uid;
use epguard_core::facts::Name;
use epguard_core::state::{State, Trip};
use std::net::IpAddr;

/// An object of the API, which an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `Service` or `Pod`.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: Name,
    /// Without it `kubectl describe` does not find the Event.
    pub uid: Option<Uid>,
}

impl Subject {
    /// A Service, as far as it is known.
    #[must_use]
    pub fn service(state: &State, name: Name) -> Self {
        Self {
            kind: "Service",
            uid: state.service_uid(&name),
            name,
        }
    }
}

/// What is one Event, however often it happens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic {
    /// About whom.
    pub about: Subject,
    /// The Event's reason.
    pub reason: &'static str,
    /// The Event's action: what epguard does.
    pub action: &'static str,
    /// What was denied; none for an alarm.
    pub case: Option<Case>,
}

/// What denied packets of one topic have in common, beside the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Where it was meant to be: pods may have two.
    pub ip: IpAddr,
    /// The pod that was meant.
    pub meant: Uid,
    /// The pod that has the IP.
    pub hit: Uid,
    /// `reused`, ...
    pub reason: &'static str,
    /// `dropped`, ...
    pub outcome: &'static str,
}

impl Topic {
    /// The breaker's alarm about a Service.
    pub fn tripped(service: Subject) -> Self {
        Self {
            about: service,
            reason: "BreakerTripped",
            action: "HoldDenials",
            case: None,
        }
    }
}

/// The breaker's alarm in words.
pub fn alarm(trip: &Trip) -> String {
    format!(
        "{} of {} recently ready endpoints would be denied ({}); observed until a second list agrees",
        trip.held,
        trip.ready_recently,
        trip.why.as_str()
    )
}

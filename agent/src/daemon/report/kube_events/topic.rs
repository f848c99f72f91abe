//! Topics: what an Event is about, and its text.

use epguard_common::{Outcome, Reason, Uid};
use epguard_core::facts::{Name, named};
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
    /// What was denied; none for the breaker's alarm about a Service.
    pub case: Option<Case>,
}

/// What the denied packets of one topic have in common, beside the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The endpoint's IP: a pod may have two.
    pub ip: IpAddr,
    /// The pod that was meant.
    pub meant: Uid,
    /// The pod that has the IP now; [`Uid::NONE`] without one.
    pub hit: Uid,
    /// Which proof holds.
    pub reason: Reason,
    /// What became of the packets.
    pub outcome: Outcome,
}

impl Topic {
    /// The reason and the action of the Event.
    pub fn words(&self) -> (&'static str, &'static str) {
        match self.case {
            None => ("BreakerTripped", "HoldDenials"),
            Some(case) if case.is_observed() => ("StaleEndpointObserved", "ObservePackets"),
            Some(_) => ("StaleEndpointDenied", "DenyPackets"),
        }
    }
}

impl Case {
    fn is_observed(&self) -> bool {
        self.outcome == Outcome::Observed
    }
}

/// Packets of a Service that were denied, or would have been.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The Service that was called.
    pub service: Subject,
    /// What was denied.
    pub case: Case,
    /// `namespace/name` of the pod that was meant.
    pub meant: String,
    /// The pod that has the IP now, if its name is known.
    pub hit: Option<Subject>,
}

impl Denial {
    /// The topics of this denial: one for each object that gets an Event.
    pub(super) fn topics(&self) -> impl Iterator<Item = Topic> {
        let subjects = std::iter::once(&self.service).chain(&self.hit);
        subjects.map(|about| Topic { about: about.clone(), case: Some(self.case) })
    }

    /// The text of the Event: what happened, and the next command to run. It has no counts, because the API does not
    /// let it change later.
    pub(super) fn note(&self, node: &str) -> String {
        let Self { service, meant, case, .. } = self;
        let Case { ip, reason, outcome, hit, .. } = case;
        let service = named(&service.name);
        let holder = match &self.hit {
            Some(pod) => format!("pod {}", named(&pod.name)),
            None if *hit == Uid::NONE => "no pod".to_owned(),
            None => format!("pod {hit}"),
        };
        let done = if case.is_observed() {
            "the packets pass, as this is only observed".to_owned()
        } else {
            format!("the packets are {outcome}")
        };
        format!(
            "Service {service} still sends to endpoint {ip} for pod {meant}, which has ended; {holder} has that IP now \
             ({reason}). On node {node} {done}. Why: epguard why {ip} --service {service}"
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &'static str, namespace: &str, name: &str, uid: u8) -> Subject {
        Subject { kind, name: (namespace.into(), name.into()), uid: Some(Uid { octets: [uid; 16] }) }
    }

    fn denial() -> Denial {
        Denial {
            service: subject("Service", "shop", "web", 1),
            case: Case {
                ip: [10, 244, 1, 10].into(),
                meant: Uid { octets: [2; 16] },
                hit: Uid { octets: [3; 16] },
                reason: Reason::Reused,
                outcome: Outcome::Rejected,
            },
            meant: "shop/a".into(),
            hit: Some(subject("Pod", "team-b", "b", 3)),
        }
    }

    fn events(denial: &Denial) -> Vec<(&'static str, (&'static str, &'static str))> {
        denial.topics().map(|topic| (topic.about.kind, topic.words())).collect()
    }

    #[test]
    fn a_denial_is_an_event_on_the_service_and_on_the_pod_that_has_the_ip() {
        let denied = ("StaleEndpointDenied", "DenyPackets");
        assert_eq!(events(&denial()), [("Service", denied), ("Pod", denied)]);
        assert_eq!(
            denial().note("node-1"),
            "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; pod team-b/b has that \
             IP now (reused). On node node-1 the packets are rejected. Why: epguard why 10.244.1.10 --service shop/web"
        );
    }

    #[test]
    fn an_observed_denial_has_its_own_event_and_an_ip_without_owner_none_on_a_pod() {
        let case =
            Case { hit: Uid::NONE, reason: Reason::DeadBackend, outcome: Outcome::Observed, ..denial().case };
        let observed = Denial { case, hit: None, ..denial() };
        assert_eq!(events(&observed), [("Service", ("StaleEndpointObserved", "ObservePackets"))]);
        let note = observed.note("node-1");
        assert!(
            note.contains("no pod has that IP now (dead-backend). On node node-1 the packets pass, as this"),
            "{note}"
        );
    }

    #[test]
    fn an_unnamed_pod_is_shown_by_its_uid() {
        let unnamed = Denial { hit: None, ..denial() };
        let note = unnamed.note("node-1");
        assert!(note.contains("pod 03030303-0303-0303-0303-030303030303 has that IP now"), "{note}");
    }

    #[test]
    fn each_pod_meant_pod_hit_ip_and_outcome_is_a_topic_of_its_own() {
        let topic = |denial: &Denial| denial.topics().next().unwrap();
        let first = topic(&denial());
        assert_eq!(first, topic(&denial()));
        let case = denial().case;
        for other in [
            Case { meant: Uid { octets: [9; 16] }, ..case },
            Case { hit: Uid::NONE, ..case },
            Case { ip: [10, 244, 1, 11].into(), ..case },
            Case { outcome: Outcome::Observed, ..case },
        ] {
            assert_ne!(first, topic(&Denial { case: other, ..denial() }));
        }
    }
}

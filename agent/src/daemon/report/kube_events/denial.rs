//! A denied flow, in the Events for the owners of the Service and of the pod that has the IP now.

use super::topic::{Case, Subject, Topic};
use epguard_common::{Outcome, Reason, Uid};
use epguard_core::facts::named;
use std::net::IpAddr;

/// Packets of a Service that were denied, or would have been.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The Service that was called.
    pub service: Subject,
    /// The endpoint's IP.
    pub ip: IpAddr,
    /// The pod that was meant, and its `namespace/name`.
    pub meant: (Uid, String),
    /// The pod that has the IP now; [`Uid::NONE`] without one.
    pub owner: Uid,
    /// That pod, if its name is known.
    pub hit: Option<Subject>,
    /// Which proof holds.
    pub reason: Reason,
    /// What became of the packets.
    pub outcome: Outcome,
}

impl Denial {
    /// The topics of this denial: one for each object that gets an Event.
    pub(super) fn topics(&self) -> impl Iterator<Item = Topic> {
        let (reason, action) = if self.is_observed() {
            ("StaleEndpointObserved", "ObservePackets")
        } else {
            ("StaleEndpointDenied", "DenyPackets")
        };
        let case = Case {
            ip: self.ip,
            meant: self.meant.0,
            hit: self.owner,
            reason: self.reason,
            outcome: self.outcome,
        };
        let subjects = std::iter::once(&self.service).chain(&self.hit);
        subjects.map(move |about| Topic { about: about.clone(), reason, action, case: Some(case.clone()) })
    }

    /// The text of the Event: what happened, and the next command to run. It has no counts, because the API does not
    /// let it change later.
    pub(super) fn note(&self, node: &str) -> String {
        let Self { service, ip, meant: (_, meant), reason, outcome, .. } = self;
        let service = named(&service.name);
        let holder = match &self.hit {
            Some(pod) => format!("pod {}", named(&pod.name)),
            None if self.owner == Uid::NONE => "no pod".to_owned(),
            None => format!("pod {}", self.owner),
        };
        let done = if self.is_observed() {
            "the packets pass, as this is only observed".to_owned()
        } else {
            format!("the packets are {outcome}")
        };
        format!(
            "Service {service} still sends to endpoint {ip} for pod {meant}, which has ended; {holder} has that IP now \
             ({reason}). On node {node} {done}. Why: epguard why {ip} --service {service}"
        )
    }

    fn is_observed(&self) -> bool {
        self.outcome == Outcome::Observed
    }
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
            ip: [10, 244, 1, 10].into(),
            meant: (Uid { octets: [2; 16] }, "shop/a".into()),
            owner: Uid { octets: [3; 16] },
            hit: Some(subject("Pod", "team-b", "b", 3)),
            reason: Reason::Reused,
            outcome: Outcome::Rejected,
        }
    }

    #[test]
    fn a_denial_is_an_event_on_the_service_and_on_the_pod_that_has_the_ip() {
        let events: Vec<_> =
            denial().topics().map(|topic| (topic.about.kind, topic.reason, topic.action)).collect();
        assert_eq!(
            events,
            [
                ("Service", "StaleEndpointDenied", "DenyPackets"),
                ("Pod", "StaleEndpointDenied", "DenyPackets")
            ]
        );
        assert_eq!(
            denial().note("node-1"),
            "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; pod team-b/b has that \
             IP now (reused). On node node-1 the packets are rejected. Why: epguard why 10.244.1.10 --service shop/web"
        );
    }

    #[test]
    fn an_observed_denial_has_its_own_event_and_an_ip_without_owner_none_on_a_pod() {
        let observed = Denial {
            owner: Uid::NONE,
            hit: None,
            reason: Reason::DeadBackend,
            outcome: Outcome::Observed,
            ..denial()
        };
        let events: Vec<_> =
            observed.topics().map(|topic| (topic.about.kind, topic.reason, topic.action)).collect();
        assert_eq!(events, [("Service", "StaleEndpointObserved", "ObservePackets")]);
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
        for other in [
            Denial { meant: (Uid { octets: [9; 16] }, "shop/a".into()), ..denial() },
            Denial { owner: Uid::NONE, hit: None, ..denial() },
            Denial { ip: [10, 244, 1, 11].into(), ..denial() },
            Denial { outcome: Outcome::Observed, ..denial() },
        ] {
            assert_ne!(first, topic(&other));
        }
    }
}

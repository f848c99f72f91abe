//! The text of an Event, and its form as the API accepts it. Pure.

use super::Subject;
use crate::shared::drops::{Kind, NOBODY};
use epguard_common::Outcome;
use epguard_core::facts::{ObjectName, cut};
use epguard_core::state::StoppedService;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// `kubectl get events --field-selector reportingComponent=epguard`
const CONTROLLER: &str = "epguard";

/// Longest `reportingInstance`, and longest `note`, in bytes (events.go:ValidateEventCreate).
const INSTANCE: usize = 128;
const NOTE: usize = 1024;

/// Longest name of an object, less a dot and a number in hexadecimal.
const NAME: usize = 253 - 17;

/// For packets that were denied, or would have been: what happened, and the next command to run. It
/// has no counts, because the API does not let it change later.
pub fn of_denial(about: &Subject, kind: &Kind, node: &str) -> Event {
    let Kind {
        service,
        meant,
        reason,
        outcome,
        ..
    } = kind;
    let ip = kind.endpoint.ip();
    let holder = match &*kind.hit {
        NOBODY => "no pod".to_owned(),
        pod => format!("pod {pod}"),
    };
    let (title, action, end) = if *outcome == Outcome::Observed.as_str() {
        (
            "StaleEndpointObserved",
            "ObservePackets",
            "pass, as this is only observed".to_owned(),
        )
    } else {
        (
            "StaleEndpointDenied",
            "DenyPackets",
            format!("are {outcome}"),
        )
    };
    let text = format!(
        "Service {service} still sends to endpoint {ip} for pod {meant}, which has ended; {holder} has that IP now \
         ({reason}). On node {node} the packets {end}. Why: epguard why {ip} --service {service}"
    );
    event(about, node, (title, action, &text))
}

/// For the breaker's alarm.
pub fn of_alarm(about: &Subject, service: &StoppedService, node: &str) -> Event {
    let text = format!(
        "{} of {} recently ready endpoints would be denied ({}); observed until a second list agrees",
        service.stopped, service.ready_recently, service.reason
    );
    event(about, node, ("DenialsStopped", "StopDenials", &text))
}

/// An Event under a name of its own, without its times: the number is random, so that no two agents
/// take the same.
fn event(about: &Subject, node: &str, (reason, action, text): (&str, &str, &str)) -> Event {
    let ObjectName { namespace, name } = &about.name;
    // A label ends with a letter or a digit.
    let label = cut(name, NAME).trim_end_matches(['-', '.']);
    Event {
        metadata: ObjectMeta {
            // Not generateName: API servers refuse a name that ends in a dot.
            name: Some(format!("{label}.{:016x}", fastrand::u64(..))),
            namespace: Some(namespace.to_string()),
            ..ObjectMeta::default()
        },
        action: Some(action.to_owned()),
        note: Some(cut(text, NOTE).to_owned()),
        reason: Some(reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(about.kind.to_owned()),
            namespace: Some(namespace.to_string()),
            name: Some(name.to_string()),
            uid: about.uid.map(|uid| uid.to_string()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(cut(node, INSTANCE).to_owned()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Series;
    use super::*;
    use epguard_common::{Reason, Uid};
    use epguard_core::state::StopReason;
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};
    use std::time::Duration;

    fn kind(reason: Reason, outcome: Outcome, hit: &str) -> Kind {
        Kind {
            outcome: outcome.as_str().into(),
            hit: hit.into(),
            ..Kind::sample(reason)
        }
    }

    fn web() -> Subject {
        Subject {
            kind: "Service",
            name: ObjectName::new("shop", "web"),
            uid: Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0"),
        }
    }

    fn alarm(about: &Subject, node: &str) -> Event {
        of_alarm(
            about,
            &StoppedService {
                stopped: 3,
                denied: 3,
                ready_recently: 4,
                since: Duration::ZERO,
                resource_version: 41,
                reason: StopReason::MoreThanHalf,
            },
            node,
        )
    }

    #[test]
    fn the_text_names_the_service_both_pods_the_node_and_what_became_of_the_packets() {
        let text = |reason, outcome, hit| {
            let Event {
                reason,
                action,
                note,
                ..
            } = of_denial(&web(), &kind(reason, outcome, hit), "node-1");
            [reason, action, note].map(Option::unwrap)
        };
        let note = |hit: &str, done: &str| {
            format!(
                "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; {hit} has that IP \
                 now {done}. Why: epguard why 10.244.1.10 --service shop/web"
            )
        };
        let rejected = note(
            "pod team-b/b",
            "(reused). On node node-1 the packets are rejected",
        );
        let denied = ["StaleEndpointDenied", "DenyPackets", &rejected];
        assert_eq!(text(Reason::Reused, Outcome::Rejected, "team-b/b"), denied);
        let pass = "(dead-backend). On node node-1 the packets pass, as this is only observed";
        let observed = [
            "StaleEndpointObserved",
            "ObservePackets",
            &note("no pod", pass),
        ];
        assert_eq!(
            text(Reason::DeadBackend, Outcome::Observed, "nobody"),
            observed
        );
    }

    #[test]
    fn an_event_is_written_with_all_its_fields() {
        let (mut series, event) = (Series::default(), alarm(&web(), "node-1"));
        let noon: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut written = |last, times, now: u64| {
            series.count(
                Duration::from_secs(last),
                web(),
                "alarm",
                event.clone(),
                times,
            );
            let wall = noon + SignedDuration::from_secs(now.cast_signed() - 100);
            json!(
                series
                    .next(Duration::from_secs(now), wall, || true)
                    .unwrap()
                    .event
            )
        };
        let note = "3 of 4 recently ready endpoints would be denied (more-than-half); observed until a second list agrees";
        let first = written(40, 1, 100);
        let once = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": event.metadata.name, "namespace": "shop"},
            "action": "StopDenials", "eventTime": "2026-03-01T11:59:00.000000Z", "note": note,
            "reason": "DenialsStopped", "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
                "uid": "145c3e45-83c2-43e7-82af-16a616c6f5e0"},
            "reportingController": "epguard", "reportingInstance": "node-1",
        });
        assert_eq!(first, once);
        let mut often = once;
        often["series"] = json!({"count": 3, "lastObservedTime": "2026-03-01T11:59:57.000000Z"});
        assert_eq!(written(97, 2, 200), often);
        assert_eq!(
            written(97, u64::from(u32::MAX), 300)["series"]["count"],
            i32::MAX
        );
    }

    #[test]
    fn long_fields_of_an_event_are_cut_to_the_limits_of_the_api() {
        let mut long = web();
        long.name.name = "p".repeat(253).into();
        let written: Value = json!(event(&long, &"n".repeat(253), ("", "", &"ü".repeat(1000))));
        assert_eq!(written["metadata"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(written["note"].as_str().unwrap().len(), 1024);
        assert_eq!(written["reportingInstance"].as_str().unwrap().len(), 128);
        assert_eq!(written["regarding"]["name"].as_str().unwrap().len(), 253);
        long.name.name = format!("{}-{}", "p".repeat(NAME - 1), "p".repeat(16)).into();
        let name = alarm(&long, "n").metadata.name.unwrap();
        assert_eq!(name.split_once('.').unwrap().0, "p".repeat(NAME - 1));
    }
}

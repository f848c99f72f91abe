//! The text of an Event, and its form as the API accepts it. Pure.

use super::series::Course;
use crate::shared::drops::{Kind, NOBODY};
use epguard_common::Outcome;
use epguard_core::state::Trip;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

/// `kubectl get events --field-selector reportingComponent=epguard`
const CONTROLLER: &str = "epguard";

/// Longest `reportingInstance`, and longest `note`, in bytes (events.go:ValidateEventCreate).
const INSTANCE: usize = 128;
const NOTE: usize = 1024;

/// Longest name of an object, less a dot and a number in hexadecimal.
const NAME: usize = 253 - 17;

/// What an Event reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
}

impl Text {
    /// For packets that were denied, or would have been: what happened, and the next command to run. It has no counts,
    /// because the API does not let it change later.
    pub fn of_denial(kind: &Kind, node: &str) -> Self {
        let Kind { service, meant, reason, outcome, .. } = kind;
        let ip = kind.endpoint.ip();
        let holder = match &*kind.hit {
            NOBODY => "no pod".to_owned(),
            pod => format!("pod {pod}"),
        };
        let (title, action, end) = if *outcome == Outcome::Observed.as_str() {
            ("StaleEndpointObserved", "ObservePackets", "pass, as this is only observed".to_owned())
        } else {
            ("StaleEndpointDenied", "DenyPackets", format!("are {outcome}"))
        };
        let note = format!(
            "Service {service} still sends to endpoint {ip} for pod {meant}, which has ended; {holder} has that IP now \
             ({reason}). On node {node} the packets {end}. Why: epguard why {ip} --service {service}"
        );
        Self { reason: title, action, note }
    }

    /// For the breaker's alarm.
    pub fn of_alarm(trip: &Trip) -> Self {
        let note = format!(
            "{} of {} recently ready endpoints would be denied ({}); observed until a second list agrees",
            trip.held, trip.ready_recently, trip.why
        );
        Self { reason: "BreakerTripped", action: "HoldDenials", note }
    }
}

/// Builds the Event. `now` (`CLOCK_BOOTTIME`) and `wall` are the same moment.
pub fn event(course: &Course, node: &str, now: Duration, wall: Timestamp) -> Event {
    let Course { about, text, .. } = course;
    let at = |then| MicroTime(wall.checked_sub(now.saturating_sub(then)).unwrap_or(wall));
    let (namespace, name) = &about.name;
    // A label ends with a letter or a digit.
    let label = cut(name, NAME).trim_end_matches(['-', '.']);
    Event {
        metadata: ObjectMeta {
            // Not generateName: API servers refuse a name that ends in a dot.
            name: Some(format!("{label}.{:016x}", course.number)),
            namespace: Some(namespace.to_string()),
            ..ObjectMeta::default()
        },
        action: Some(text.action.to_owned()),
        event_time: Some(at(course.first)),
        note: Some(cut(&text.note, NOTE).to_owned()),
        reason: Some(text.reason.to_owned()),
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
        // A series begins with the second occurrence.
        series: (course.count > 1).then(|| EventSeries {
            count: i32::try_from(course.count).unwrap_or(i32::MAX),
            last_observed_time: at(course.last),
        }),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

/// Cuts a text at a character boundary. Names and notes are ASCII, but a cut through a character would panic.
fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::report::kube_events::Subject;
    use epguard_common::{Reason, Uid};
    use epguard_core::state::Why;
    use serde_json::{Value, json};

    fn kind(reason: Reason, outcome: Outcome, hit: &str) -> Kind {
        Kind {
            service: "shop/web".into(),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            reason: reason.as_str().into(),
            outcome: outcome.as_str().into(),
            meant: "shop/a".into(),
            hit: hit.into(),
        }
    }

    fn alarm() -> Text {
        let (since, why) = (Duration::ZERO, Why::Half);
        Text::of_alarm(&Trip { held: 3, denied: 3, ready_recently: 4, since, why })
    }

    #[test]
    fn the_text_names_the_service_both_pods_the_node_and_what_became_of_the_packets() {
        let text = |reason, outcome, hit| {
            let Text { reason, action, note } = Text::of_denial(&kind(reason, outcome, hit), "node-1");
            (reason, action, note)
        };
        let note = |hit: &str, done: &str| {
            format!(
                "Service shop/web still sends to endpoint 10.244.1.10 for pod shop/a, which has ended; {hit} has that IP \
                 now {done}. Why: epguard why 10.244.1.10 --service shop/web"
            )
        };
        let rejected = note("pod team-b/b", "(reused). On node node-1 the packets are rejected");
        let denied = ("StaleEndpointDenied", "DenyPackets", rejected);
        assert_eq!(text(Reason::Reused, Outcome::Rejected, "team-b/b"), denied);
        let pass = "(dead-backend). On node node-1 the packets pass, as this is only observed";
        let observed = ("StaleEndpointObserved", "ObservePackets", note("no pod", pass));
        assert_eq!(text(Reason::DeadBackend, Outcome::Observed, "nobody"), observed);
        let note = "3 of 4 recently ready endpoints would be denied (more-than-half); observed until a second list agrees";
        assert_eq!(alarm().note, note);
    }

    fn course(count: u64) -> Course {
        let about = Subject {
            kind: "Service",
            name: ("shop".into(), "web".into()),
            uid: Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0"),
        };
        let [first, last] = [40, 97].map(Duration::from_secs);
        Course { about, text: alarm(), number: 0xabc, count, first, last, written: None }
    }

    fn written(course: &Course, node: &str) -> Value {
        let wall = "2026-03-01T12:00:00Z".parse().unwrap();
        serde_json::to_value(event(course, node, Duration::from_secs(100), wall)).unwrap()
    }

    #[test]
    fn an_event_is_written_with_all_its_fields() {
        let once = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "web.0000000000000abc", "namespace": "shop"},
            "action": "HoldDenials", "eventTime": "2026-03-01T11:59:00.000000Z", "note": alarm().note,
            "reason": "BreakerTripped", "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
                "uid": "145c3e45-83c2-43e7-82af-16a616c6f5e0"},
            "reportingController": "epguard", "reportingInstance": "node-1",
        });
        assert_eq!(written(&course(1), "node-1"), once);
        let mut often = once;
        often["series"] = json!({"count": 3, "lastObservedTime": "2026-03-01T11:59:57.000000Z"});
        assert_eq!(written(&course(3), "node-1"), often);
    }

    #[test]
    fn long_fields_of_an_event_are_cut_to_the_limits_of_the_api() {
        let mut long = course(u64::MAX);
        long.about.name.1 = "p".repeat(253).into();
        long.text.note = "ü".repeat(1000);
        let event = written(&long, &"n".repeat(253));
        assert_eq!(event["metadata"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(event["note"].as_str().unwrap().len(), 1024);
        assert_eq!(event["reportingInstance"].as_str().unwrap().len(), 128);
        assert_eq!(event["regarding"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(event["series"]["count"], i32::MAX);
        long.about.name.1 = format!("{}-{}", "p".repeat(NAME - 1), "p".repeat(16)).into();
        let event = written(&long, "n");
        assert_eq!(event["metadata"]["name"], format!("{}.0000000000000abc", "p".repeat(NAME - 1)));
    }
}

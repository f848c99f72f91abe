//! Builds an Event in the form that the API accepts. Pure.

use super::series::Course;
use super::topic::Topic;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// `kubectl get events --field-selector reportingComponent=epguard`
const CONTROLLER: &str = "epguard";

/// Longest `reportingInstance`, and longest `note`, in bytes (events.go:ValidateEventCreate).
const INSTANCE: usize = 128;
const NOTE: usize = 1024;

/// Longest name of an object, less a dot and a number in hexadecimal.
const NAME: usize = 253 - 17;

/// Builds the Event. `now` (`CLOCK_BOOTTIME`) and `wall` are the same moment.
pub fn event(topic: &Topic, course: &Course, node: &str, now: Duration, wall: Timestamp) -> Event {
    let at = |then| wall_time(wall, now.saturating_sub(then));
    let about = &topic.about;
    let (namespace, name) = &about.name;
    let (reason, action) = topic.words();
    // A label ends with a letter or a digit.
    let label = cut(name, NAME).trim_end_matches(['-', '.']);
    Event {
        metadata: ObjectMeta {
            // Not generateName: API servers refuse a name that ends in a dot.
            name: Some(format!("{label}.{:016x}", course.number)),
            namespace: Some(namespace.to_string()),
            ..ObjectMeta::default()
        },
        action: Some(action.to_owned()),
        event_time: Some(at(course.first)),
        note: Some(cut(&course.note, NOTE).to_owned()),
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
        // A series begins with the second occurrence.
        series: (course.count > 1).then(|| EventSeries {
            count: i32::try_from(course.count).unwrap_or(i32::MAX),
            last_observed_time: at(course.last),
        }),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

fn wall_time(wall: Timestamp, ago: Duration) -> MicroTime {
    let then = SignedDuration::try_from(ago).ok().and_then(|ago| wall.checked_sub(ago).ok());
    MicroTime(then.unwrap_or(wall))
}

/// Cuts a text at a character boundary. Names and notes are ASCII, but a cut through a character would panic.
fn cut(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

#[cfg(test)]
mod tests {
    use super::super::topic::Subject;
    use super::*;
    use epguard_common::Uid;
    use serde_json::json;

    fn due(count: u64) -> (Topic, Course) {
        let about = Subject {
            kind: "Service",
            name: ("shop".into(), "web".into()),
            uid: Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0"),
        };
        let course = Course {
            number: 0xabc,
            note: "it happened".into(),
            count,
            first: Duration::from_secs(40),
            last: Duration::from_secs(97),
            written: None,
        };
        (Topic { about, case: None }, course)
    }

    fn written((topic, course): &(Topic, Course), node: &str) -> serde_json::Value {
        let wall = "2026-03-01T12:00:00Z".parse().unwrap();
        serde_json::to_value(event(topic, course, node, Duration::from_secs(100), wall)).unwrap()
    }

    #[test]
    fn an_event_is_written_with_all_its_fields() {
        let once = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "web.0000000000000abc", "namespace": "shop"},
            "action": "HoldDenials", "eventTime": "2026-03-01T11:59:00.000000Z", "note": "it happened",
            "reason": "BreakerTripped", "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
                "uid": "145c3e45-83c2-43e7-82af-16a616c6f5e0"},
            "reportingController": "epguard", "reportingInstance": "node-1",
        });
        assert_eq!(written(&due(1), "node-1"), once);
        let mut often = once;
        often["series"] = json!({"count": 3, "lastObservedTime": "2026-03-01T11:59:57.000000Z"});
        assert_eq!(written(&due(3), "node-1"), often);
    }

    #[test]
    fn long_fields_of_an_event_are_cut_to_the_limits_of_the_api() {
        let mut long = due(u64::MAX);
        long.0.about.name.1 = "p".repeat(253).into();
        long.1.note = "ü".repeat(1000);
        let event = written(&long, &"n".repeat(253));
        assert_eq!(event["metadata"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(event["note"].as_str().unwrap().len(), 1024);
        assert_eq!(event["reportingInstance"].as_str().unwrap().len(), 128);
        assert_eq!(event["regarding"]["name"].as_str().unwrap().len(), 253);
        assert_eq!(event["series"]["count"], i32::MAX);
        long.0.about.name.1 = format!("{}-{}", "p".repeat(NAME - 1), "p".repeat(16)).into();
        let event = written(&long, "n");
        assert_eq!(event["metadata"]["name"], format!("{}.0000000000000abc", "p".repeat(NAME - 1)));
    }
}

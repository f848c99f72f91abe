//! Rules for Events of `events.k8s.io/v1`, which have an `eventTime`
//! (pkg/apis/core/validation/events.go).

use serde_json::Value;

use crate::api::{ApiError, Kind};

/// Required fields of an Event, with the most bytes that each may have.
const REQUIRED: [(&str, usize); 5] = [
    ("reportingController", 63),
    ("reportingInstance", 128),
    ("action", 128),
    ("reason", 128),
    ("type", 7),
];

/// Fields that never change, like all that are required. Of an Event only its series may change.
const FIXED: [&str; 3] = ["eventTime", "regarding", "note"];

/// 422 for an Event that Kubernetes refuses.
pub(super) fn check(kind: Kind, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    if kind != Kind::Event || new["eventTime"].is_null() {
        return Ok(());
    }
    for (field, longest) in REQUIRED {
        let length = new[field].as_str().unwrap_or_default().len();
        if length == 0 || length > longest {
            return Err(refused(
                field,
                &format!("{length} bytes; must be 1 to {longest}"),
            ));
        }
    }
    if new["note"].as_str().unwrap_or_default().len() > 1024 {
        return Err(refused("note", "can have at most 1024 characters"));
    }
    if new["metadata"]["generateName"]
        .as_str()
        .is_some_and(|prefix| prefix.ends_with('.'))
    {
        return Err(refused(
            "metadata.generateName",
            "no prefix of a DNS subdomain",
        ));
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty()
        && !name
            .split('.')
            .all(|label| label.ends_with(|c: char| c.is_ascii_alphanumeric()))
    {
        return Err(refused("metadata.name", "no DNS subdomain"));
    }
    let series = &new["series"];
    let goes_on = series["count"].as_i64() >= Some(2) && series["lastObservedTime"].is_string();
    if !series.is_null() && !goes_on {
        return Err(refused(
            "series",
            "count should be at least 2, lastObservedTime is required",
        ));
    }
    let mut fixed = FIXED.into_iter().chain(REQUIRED.map(|(field, _)| field));
    match old.and_then(|old| fixed.find(|field| old[*field] != new[*field])) {
        Some(field) => Err(refused(field, "field is immutable")),
        None => Ok(()),
    }
}

fn refused(field: &str, why: &str) -> ApiError {
    ApiError::invalid(format!("Event: {field}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(field: &str, value: Value) -> Value {
        let mut event = json!({"eventTime": "2026-03-01T12:00:00.000000Z", "reportingController": "c",
            "reportingInstance": "i", "action": "a", "reason": "r", "type": "Warning"});
        event[field] = value;
        event
    }

    #[test]
    fn an_event_is_complete_and_only_its_series_may_change() {
        let series = json!({"count": 2, "lastObservedTime": "2026-03-01T12:01:00.000000Z"});
        for (is_new, field, value, code) in [
            (true, "note", Value::Null, None),
            (false, "series", series, None),
            (false, "note", "m".into(), Some(422)),
            (false, "regarding", json!({"name": "x"}), Some(422)),
            (false, "action", "b".into(), Some(422)),
            (true, "action", Value::Null, Some(422)),
            (true, "reportingInstance", "n".repeat(129).into(), Some(422)),
            (true, "note", "n".repeat(1025).into(), Some(422)),
            (
                true,
                "series",
                json!({"count": 1, "lastObservedTime": "t"}),
                Some(422),
            ),
            (true, "series", json!({"count": 2}), Some(422)),
            (true, "metadata", json!({"generateName": "web."}), Some(422)),
            (true, "metadata", json!({"name": "web-.1"}), Some(422)),
        ] {
            let old = with("note", Value::Null);
            let new = with(field, value);
            let checked = check(Kind::Event, Some(&old).filter(|_| !is_new), &new);
            assert_eq!(checked.err().map(|error| error.code), code, "{new}");
        }
        for (kind, new) in [
            (Kind::Event, json!({"message": "an older event"})),
            (Kind::Pod, with("action", Value::Null)),
        ] {
            assert_eq!(check(kind, None, &new), Ok(()));
        }
    }
}

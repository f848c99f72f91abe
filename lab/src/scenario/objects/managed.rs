//! `metadata.managedFields`: the writer of each part of a status.

use serde_json::{Map, Value, json};

/// An entry for the top-level fields that `manager` has written into `status`, through the status subresource.
pub(super) fn status(manager: &str, time: &str, fields: &[&str]) -> Value {
    entry(manager, time, "f:status", fields, Some("status"))
}

/// An entry for fields of `spec`.
pub(super) fn spec(manager: &str, time: &str, fields: &[&str]) -> Value {
    entry(manager, time, "f:spec", fields, None)
}

fn entry(manager: &str, time: &str, part: &str, fields: &[&str], subresource: Option<&str>) -> Value {
    let owned: Map<String, Value> = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
    let mut entry = json!({
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {part: owned},
    });
    if let Some(subresource) = subresource {
        entry["subresource"] = subresource.into();
    }
    entry
}

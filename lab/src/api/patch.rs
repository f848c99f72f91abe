//! The patch formats of the API: RFC 7386, strategic merge, which is kubectl's, and server-side
//! apply, which is Helm's. No client here sends RFC 6902.

use serde_json::{Value, json};

use super::ApiError;
use crate::object;

/// Server-side apply. The body is JSON here, which is YAML, too. Fields have no owners: an applied
/// object changes and adds, and removes nothing.
pub(crate) const SERVER_SIDE: &str = "application/apply-patch+yaml";

/// The object after a patch of this content type.
pub(crate) fn apply(content_type: &str, object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let mut patched = object.clone();
    match content_type {
        "application/merge-patch+json" => object::merge(&mut patched, patch),
        "application/strategic-merge-patch+json" | SERVER_SIDE => merge(&mut patched, patch, ""),
        other => {
            let message = format!("the body of the request was in an unknown format: {other:?}");
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
    }
    Ok(patched)
}

/// The key that identifies elements of a list in strategic merge, for the lists of the agent's
/// manifests; none: the list is one value.
fn merge_key(parent: &str, field: &str) -> Option<&'static str> {
    match (parent, field) {
        (_, "containers" | "volumes" | "env") => Some("name"),
        (_, "volumeMounts") => Some("mountPath"),
        ("spec", "ports") => Some("port"),
        ("containers", "ports") => Some("containerPort"),
        _ => None,
    }
}

/// Strategic merge into the value of a field. Of the directives only `$patch` is obeyed: kubectl's
/// `$setElementOrder` changes no value.
fn merge(target: &mut Value, patch: &Value, field: &str) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() || fields.contains_key("$patch") {
        *target = json!({});
    }
    if patch["$patch"] == "delete" {
        return;
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in fields.iter().filter(|(key, _)| !key.starts_with('$')) {
        if value.is_null() {
            target.remove(key);
            continue;
        }
        let old = target.entry(key).or_insert(Value::Null);
        match value.as_array().zip(merge_key(field, key)) {
            Some((elements, merge_key)) => merge_list(old, elements, merge_key, key),
            None => merge(old, value, key),
        }
    }
}

fn merge_list(list: &mut Value, elements: &[Value], merge_key: &str, field: &str) {
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    for element in elements {
        let known = list
            .iter()
            .position(|old| old.get(merge_key) == element.get(merge_key));
        match (element["$patch"] == "delete", known) {
            (true, None) => {}
            (true, Some(index)) => _ = list.remove(index),
            (false, Some(index)) => merge(&mut list[index], element, field),
            (false, None) => {
                let mut new = Value::Null;
                merge(&mut new, element, field);
                list.push(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_keyed_lists_are_merged_as_clients_ask() {
        let plain = || json!({"args": ["a"], "x": 1});
        let containers =
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [1]});
        let change = json!({
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
            "tolerations": [2],
        });
        let merged =
            json!({"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "tolerations": [2]});
        // A rollback of kubectl.
        let template = json!({"template": {"x": 1, "y": 2}, "z": 3});
        let rollback = json!({"template": {"$patch": "replace", "x": 4}});
        let invalid = json!({"containers": "none", "env": [1, null, "x"]});
        let into_invalid =
            json!({"containers": [null, 1, {"name": null}], "env": [{"name": []}, 7]});
        let all = json!({"containers": [1, {}], "env": [7, null, "x", {"name": []}]});
        for (format, object, patch, expected) in [
            (
                "merge",
                plain(),
                json!({"x": null, "y": 2}),
                Ok(json!({"args": ["a"], "y": 2})),
            ),
            (
                "merge",
                plain(),
                json!({"args": {"a": null, "b": {}}}),
                Ok(json!({"args": {"b": {}}, "x": 1})),
            ),
            ("merge", plain(), json!([1]), Ok(json!([1]))),
            (
                "strategic-merge",
                plain(),
                json!({"x": 2}),
                Ok(json!({"args": ["a"], "x": 2})),
            ),
            ("strategic-merge", containers, change, Ok(merged)),
            (
                "strategic-merge",
                template,
                rollback,
                Ok(json!({"template": {"x": 4}, "z": 3})),
            ),
            ("strategic-merge", invalid, into_invalid, Ok(all)),
            ("unknown", plain(), json!({}), Err(415)),
        ] {
            let patched = apply(&format!("application/{format}-patch+json"), &object, &patch);
            assert_eq!(
                patched.map_err(|error| error.code),
                expected,
                "{format} {patch}"
            );
        }
    }
}

//! The patch formats of the API: RFC 6902, RFC 7386, and strategic merge, which is kubectl's.

use serde_json::{Value, json};

use super::ApiError;

/// A patch as sent, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// RFC 6902
    Json,
    /// RFC 7386
    Merge,
    /// Merge that knows the lists with keys (Pod containers, conditions, Service ports).
    Strategic,
}

impl Format {
    /// Reads a `Content-Type`.
    pub(crate) fn of(content_type: &str) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            other => {
                let message = format!("the body of the request was in an unknown format: {other:?}");
                Err(ApiError::new(415, "UnsupportedMediaType", message))
            }
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(self, object: &Value, patch: &Value) -> Result<Value, ApiError> {
        let mut patched = object.clone();
        match self {
            Self::Merge => json_patch::merge(&mut patched, patch),
            Self::Strategic => merge(&mut patched, patch, ""),
            Self::Json => {
                let operations: json_patch::Patch = serde_json::from_value(patch.clone())
                    .map_err(|e| ApiError::bad_request(format!("not a JSON patch: {e}")))?;
                json_patch::patch(&mut patched, &operations)
                    .map_err(|e| ApiError::invalid(format!("JSON patch does not apply: {e}")))?;
            }
        }
        Ok(patched)
    }
}

/// The key that identifies elements of a list in strategic merge; none: the list is one value.
fn merge_key(parent: &str, field: &str) -> Option<&'static str> {
    match (parent, field) {
        (_, "containers" | "initContainers" | "volumes" | "env") => Some("name"),
        (_, "volumeMounts") => Some("mountPath"),
        ("status", "conditions" | "addresses") => Some("type"),
        (_, "podIPs" | "hostIPs") => Some("ip"),
        (_, "ownerReferences") => Some("uid"),
        ("spec", "ports") => Some("port"),
        ("containers" | "initContainers", "ports") => Some("containerPort"),
        _ => None,
    }
}

/// Strategic merge into the value of a field. Of the directives only `$patch` is obeyed: kubectl's `$setElementOrder`
/// changes no value.
fn merge(target: &mut Value, patch: &Value, field: &str) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() || fields.contains_key("$patch") {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut().filter(|_| patch["$patch"] != "delete") else { return };
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
    let Some(list) = list.as_array_mut() else { return };
    if elements.iter().any(|element| element["$patch"] == "replace") {
        list.clear();
    }
    for element in elements {
        let known = list.iter().position(|old| old.get(merge_key) == element.get(merge_key));
        match (element["$patch"].as_str(), known) {
            (Some("replace"), _) | (Some("delete"), None) => {}
            (Some("delete"), Some(index)) => _ = list.remove(index),
            (_, Some(index)) => merge(&mut list[index], element, field),
            (_, None) => {
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
    fn objects_and_keyed_lists_are_merged_as_kubectl_asks() {
        let containers =
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [1]});
        let change = json!({
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
            "tolerations": [2],
        });
        let merged = json!({"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "tolerations": [2]});
        let ready = |ready| json!({"conditions": [{"type": "Ready", "status": ready}, {"type": "Other"}]});
        let unready = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        // A rollback of kubectl.
        let template = json!({"template": {"x": 1, "y": 2}, "z": 3});
        let rollback = json!({"template": {"$patch": "replace", "x": 4}});
        for (part, object, patch, expected) in [
            ("spec", containers, change, merged),
            ("status", ready("True"), unready, ready("False")),
            ("spec", template, rollback, json!({"template": {"x": 4}, "z": 3})),
        ] {
            let merged = Format::Strategic.apply(&json!({part: object}), &json!({part: patch})).unwrap();
            assert_eq!(merged[part], expected);
        }
    }

    #[test]
    fn lists_of_invalid_items_do_not_panic() {
        let object = json!({"spec": {"containers": "none", "ports": [1, null, "x"]}});
        let patch = json!({"spec": {"containers": [null, 1, {"name": null}], "ports": [{"port": []}, 7]}});
        let merged = Format::Strategic.apply(&object, &patch).unwrap();
        assert_eq!(merged["spec"]["ports"].as_array().unwrap().len(), 4);
    }
}

//! Strategic merge patch, for the keyed lists of the kinds served here; other lists are replaced.

use serde_json::{Map, Value, json};

/// The object after the patch. The directives `$patch`, `$retainKeys` and `$deleteFromPrimitiveList` are obeyed.
pub(super) fn merge(object: &Value, patch: &Value) -> Value {
    let mut merged = object.clone();
    merge_value(&mut merged, patch, "");
    merged
}

/// The key that identifies elements of list `field`; none: the list is one value.
fn merge_key(parent: &str, field: &str) -> Option<&'static str> {
    match (parent, field) {
        (
            _,
            "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets",
        ) => Some("name"),
        (_, "volumeMounts") => Some("mountPath"),
        ("status", "conditions" | "addresses") => Some("type"),
        (_, "podIPs" | "hostIPs" | "hostAliases") => Some("ip"),
        (_, "ownerReferences") => Some("uid"),
        ("spec", "ports") => Some("port"),
        ("containers" | "initContainers" | "ephemeralContainers", "ports") => Some("containerPort"),
        _ => None,
    }
}

/// Lists of plain values that are merged as sets.
fn is_set(field: &str) -> bool {
    matches!(field, "finalizers" | "podCIDRs")
}

fn merge_value(target: &mut Value, patch: &Value, field: &str) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    let directive = patch.get("$patch").and_then(Value::as_str);
    if !target.is_object() || directive.is_some() {
        *target = json!({});
    }
    let Some(target) = target.as_object_mut().filter(|_| directive != Some("delete")) else {
        return;
    };
    if let Some(keys) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|key, _| keys.iter().any(|k| k == key));
    }
    for (key, value) in patch {
        merge_field(target, key, value, field);
    }
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value, parent: &str) {
    if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
        let gone = value.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(list) = target.get_mut(list).and_then(Value::as_array_mut) {
            list.retain(|element| !gone.contains(element));
        }
        return;
    }
    if key.starts_with('$') {
        return;
    }
    match value {
        Value::Null => _ = target.remove(key),
        Value::Array(elements) if merge_key(parent, key).is_some() || is_set(key) => {
            let list = target.entry(key).or_insert_with(|| json!([]));
            if !list.is_array() {
                *list = json!([]);
            }
            if let Some(list) = list.as_array_mut() {
                merge_list(list, elements, merge_key(parent, key), key);
            }
        }
        value => merge_value(target.entry(key).or_insert(Value::Null), value, key),
    }
}

fn merge_list(list: &mut Vec<Value>, elements: &[Value], merge_key: Option<&str>, field: &str) {
    let Some(merge_key) = merge_key else {
        for element in elements {
            if !list.contains(element) {
                list.push(element.clone());
            }
        }
        return;
    };
    if elements.iter().any(|element| element["$patch"] == "replace") {
        list.clear();
    }
    for element in elements {
        let known = list.iter().position(|old| old.get(merge_key) == element.get(merge_key));
        match (element["$patch"].as_str(), known) {
            (Some("replace"), _) | (Some("delete"), None) => {}
            (Some("delete"), Some(index)) => _ = list.remove(index),
            (_, Some(index)) => merge_value(&mut list[index], element, field),
            (_, None) => {
                let mut new = Value::Null;
                merge_value(&mut new, element, field);
                list.push(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_lists_are_merged_by_their_key() {
        let pod =
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [1]}});
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
            "tolerations": [2],
        }});
        let expected =
            json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "tolerations": [2]}});
        assert_eq!(merge(&pod, &patch), expected);
    }

    #[test]
    fn a_condition_patch_leaves_the_other_conditions() {
        let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]}});
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        assert_eq!(merge(&pod, &patch)["status"]["conditions"][1]["type"], "Other");
        assert_eq!(merge(&pod, &patch)["status"]["conditions"][0]["status"], "False");
    }

    #[test]
    fn directives_replace_retain_and_delete() {
        let object =
            json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"x": 1, "y": 2}, "data": {"k": 1}});
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
            "spec": {"$retainKeys": ["y"]}, "data": {"$patch": "replace", "l": 2},
        });
        let expected = json!({"metadata": {"finalizers": ["b", "c"]}, "spec": {"y": 2}, "data": {"l": 2}});
        assert_eq!(merge(&object, &patch), expected);
    }

    #[test]
    fn lists_of_invalid_items_do_not_panic() {
        let object = json!({"spec": {"containers": "none", "ports": [1, null, "x"]}});
        let patch = json!({"spec": {"containers": [null, 1, {"name": null}], "ports": [{"port": []}, 7]}});
        assert_eq!(merge(&object, &patch)["spec"]["ports"].as_array().unwrap().len(), 4);
    }
}

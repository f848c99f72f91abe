//! Patches: JSON patch, merge patch, and as much of the strategic merge as `kubectl apply` needs.

use crate::api::ApiError;
use serde_json::{Map, Value};

/// A change to an object.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// As a merge patch, with lists of named things merged by their key.
    Strategic(Value),
}

/// Keys by which lists are merged, in the order in which they are tried.
const MERGE_KEYS: [&str; 6] = ["containerPort", "port", "name", "type", "ip", "uid"];

impl Patch {
    pub(super) fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Json(patch) => {
                let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                    .map_err(|error| ApiError::bad_request(format!("no JSON patch: {error}")))?;
                json_patch::patch(&mut object, &patch)
                    .map_err(|error| ApiError::invalid(error.to_string()))?;
            }
            Self::Strategic(patch) => strategic(&mut object, patch),
        }
        Ok(object)
    }
}

fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (fields.get_mut(key), change) {
            (_, Value::Null) => drop(fields.remove(key)),
            (Some(Value::Array(list)), Value::Array(changes)) => merge_lists(list, changes),
            (Some(old), Value::Object(_)) => strategic(old, change),
            (Some(old), _) => *old = change.clone(),
            (None, _) => {
                let mut new = Value::Null;
                strategic(&mut new, change);
                fields.insert(key.clone(), new);
            }
        }
    }
}

fn merge_lists(list: &mut Vec<Value>, changes: &[Value]) {
    let key = MERGE_KEYS
        .into_iter()
        .find(|key| changes.iter().all(|change| !change[*key].is_null()));
    let Some(key) = key.filter(|_| !changes.is_empty()) else {
        *list = changes.to_vec();
        return;
    };
    for change in changes {
        let found = list.iter().position(|item| item[key] == change[key]);
        match (found, change["$patch"].as_str()) {
            (Some(index), Some("delete")) => drop(list.remove(index)),
            (Some(index), _) => strategic(&mut list[index], change),
            (None, Some("delete")) => {}
            (None, _) => list.push(change.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_strategic_merge_patches_the_named_item_of_a_list() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}});
        let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}]}});
        let merged = Patch::Strategic(patch).apply(pod).unwrap();
        assert_eq!(
            merged,
            json!({"spec": {"containers": [{"name": "a", "image": "2"}]}})
        );
    }

    #[test]
    fn null_removes_a_field() {
        let merged =
            Patch::Strategic(json!({"a": null, "b": {"c": null}})).apply(json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(merged.unwrap(), json!({"b": {}}));
    }
}

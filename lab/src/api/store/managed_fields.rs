//! `metadata.managedFields`: the last writer of each field. Lists count as one field; otherwise as the real server does.

use serde_json::{Map, Value, json};

/// Fields of metadata that have an owner; the server writes the others.
const OWNED_METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// The writer as recorded in `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    /// "Update", or "Apply" for server-side apply.
    pub(crate) operation: &'static str,
    /// True for writes to `/status`.
    pub(crate) status: bool,
}

impl Writer {
    pub(crate) fn update(manager: &str) -> Self {
        Self { manager: manager.into(), operation: "Update", status: false }
    }
}

/// Makes the writer the owner of all differences between `old` and `new`, unless the caller sent managedFields itself.
pub(super) fn stamp(old: Option<&Value>, new: &mut Value, writer: &Writer, now: &str) {
    let nothing = json!({});
    let kept = old.map_or(&Value::Null, |old| &old["metadata"]["managedFields"]);
    let given = &new["metadata"]["managedFields"];
    if !given.is_null() && given != kept {
        return;
    }
    let (before, after) = (owned(old.unwrap_or(&nothing)), owned(new));
    let changed = fields(&after, |path| at(&before, path) != at(&after, path));
    let removed = fields(&before, |path| at(&after, path).is_none());
    let mut entries = kept.as_array().cloned().unwrap_or_default();
    if !changed.is_empty() || !removed.is_empty() {
        for entry in &mut entries {
            if let Some(tree) = entry.get_mut("fieldsV1").and_then(Value::as_object_mut) {
                subtract(tree, &changed);
                subtract(tree, &removed);
            }
        }
        let version = new["apiVersion"].clone();
        give(&mut entries, changed, writer, &version, now);
        entries.retain(|entry| entry["fieldsV1"] != nothing);
    }
    if let Some(meta) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        if entries.is_empty() {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".into(), entries.into());
        }
    }
}

fn give(entries: &mut Vec<Value>, changed: Map<String, Value>, writer: &Writer, version: &Value, now: &str) {
    if changed.is_empty() {
        return;
    }
    let subresource = if writer.status { "status".into() } else { Value::Null };
    let own = entries.iter_mut().find(|entry| {
        entry["manager"] == writer.manager.as_str()
            && entry["operation"] == writer.operation
            && entry.get("subresource").unwrap_or(&Value::Null) == &subresource
    });
    if let Some(entry) = own
        && entry.is_object()
    {
        entry["time"] = now.into();
        match entry.get_mut("fieldsV1").and_then(Value::as_object_mut) {
            Some(tree) => unite(tree, changed),
            None => entry["fieldsV1"] = changed.into(),
        }
        return;
    }
    let mut entry = json!({
        "manager": writer.manager, "operation": writer.operation, "apiVersion": version, "time": now,
        "fieldsType": "FieldsV1", "fieldsV1": changed,
    });
    if writer.status {
        entry["subresource"] = subresource;
    }
    entries.push(entry);
}

/// The object without the fields that have no owner.
fn owned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.retain(|key, _| key != "apiVersion" && key != "kind");
        if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|key, _| OWNED_METADATA.contains(&key.as_str()));
        }
    }
    object
}

/// The leaves of `value` that `wanted` accepts, as a `FieldsV1` tree.
fn fields(value: &Value, wanted: impl Fn(&[&str]) -> bool) -> Map<String, Value> {
    fn walk<'a>(
        value: &'a Value,
        path: &mut Vec<&'a str>,
        wanted: &dyn Fn(&[&str]) -> bool,
    ) -> Option<Value> {
        let map = value.as_object().filter(|map| !map.is_empty());
        let Some(map) = map else {
            return (!path.is_empty() && wanted(path)).then(|| json!({}));
        };
        let mut tree = Map::new();
        for (key, child) in map {
            path.push(key);
            if let Some(subtree) = walk(child, path, wanted) {
                tree.insert(format!("f:{key}"), subtree);
            }
            path.pop();
        }
        (!tree.is_empty()).then_some(Value::Object(tree))
    }
    match walk(value, &mut Vec::new(), &wanted) {
        Some(Value::Object(tree)) => tree,
        _ => Map::new(),
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

fn unite(tree: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, subtree) in more {
        match (tree.get_mut(&key).and_then(Value::as_object_mut), subtree) {
            (Some(known), Value::Object(subtree)) => unite(known, subtree),
            (_, subtree) => _ = tree.insert(key, subtree),
        }
    }
}

fn subtract(tree: &mut Map<String, Value>, less: &Map<String, Value>) {
    tree.retain(|key, subtree| match (subtree.as_object_mut(), less.get(key).and_then(Value::as_object)) {
        (_, None) => true,
        (Some(subtree), Some(less)) if !less.is_empty() => {
            subtract(subtree, less);
            !subtree.is_empty()
        }
        _ => false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managers(object: &Value) -> Vec<(String, String)> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.to_string().replace('"', "");
        entries.iter().map(|entry| (text(&entry["manager"]), text(&entry["fieldsV1"]))).collect()
    }

    #[test]
    fn a_field_belongs_to_its_last_writer() {
        let mut first =
            json!({"metadata": {"labels": {"a": "1"}}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
        stamp(None, &mut first, &Writer::update("controller"), "t1");
        let mut second = first.clone();
        second["status"]["phase"] = "Failed".into();
        stamp(Some(&first), &mut second, &Writer::update("kubelet"), "t2");
        assert_eq!(
            managers(&second),
            [
                ("controller".into(), "{f:metadata:{f:labels:{f:a:{}}},f:status:{f:podIP:{}}}".into()),
                ("kubelet".into(), "{f:status:{f:phase:{}}}".into()),
            ]
        );
        let mut third = second.clone();
        third["status"] = json!({"podIP": "10.0.0.1"});
        stamp(Some(&second), &mut third, &Writer::update("controller"), "t3");
        assert_eq!(managers(&third).len(), 1, "a removed field belongs to nobody");
    }

    #[test]
    fn managed_fields_of_the_caller_are_kept() {
        let given = json!([{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}]);
        let mut object = json!({"metadata": {"managedFields": given}, "status": {"phase": "Failed"}});
        stamp(None, &mut object, &Writer::update("other"), "t1");
        assert_eq!(object["metadata"]["managedFields"], given);
    }
}

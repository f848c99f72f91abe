//! `metadata.managedFields`: the last writer of each field. Two levels deep, as in `status.phase`; metadata has no writers.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The writer as recorded in `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    /// True for writes to `/status`.
    pub(crate) status: bool,
}

/// Makes the writer the owner of all differences between `old` and `new`, unless the caller sent managedFields itself.
pub(super) fn stamp(old: Option<&Value>, new: &mut Value, writer: &Writer, now: &str) {
    let old = old.unwrap_or(&Value::Null);
    let (kept, given) = (&old["metadata"]["managedFields"], &new["metadata"]["managedFields"]);
    if !given.is_null() && given != kept {
        return;
    }
    let (before, after) = (fields(old), fields(new));
    let differs = |(part, field): &(&String, &String)| old[*part].get(*field) != new[*part].get(*field);
    let changed: Vec<_> = before.union(&after).copied().filter(differs).collect();
    let mut entries = kept.as_array().cloned().unwrap_or_default();
    for tree in entries.iter_mut().filter_map(|entry| entry["fieldsV1"].as_object_mut()) {
        for (part, field) in &changed {
            if let Some(fields) = tree.get_mut(&format!("f:{part}")).and_then(Value::as_object_mut) {
                fields.remove(&format!("f:{field}"));
            }
        }
        tree.retain(|_, fields| *fields != json!({}));
    }
    let mut own = Map::new();
    for (part, field) in changed.iter().filter(|field| after.contains(*field)) {
        let fields = own.entry(format!("f:{part}")).or_insert_with(|| json!({}));
        fields[format!("f:{field}")] = json!({});
    }
    if !own.is_empty() {
        give(&mut entries, own, writer, &new["apiVersion"], now);
    }
    entries.retain(|entry| entry["fieldsV1"] != json!({}));
    if let Some(meta) = new["metadata"].as_object_mut() {
        meta.remove("managedFields");
        meta.extend((!entries.is_empty()).then(|| ("managedFields".to_owned(), entries.into())));
    }
}

/// The fields that have a writer.
fn fields(object: &Value) -> BTreeSet<(&String, &String)> {
    let parts = object.as_object().into_iter().flatten().filter(|(part, _)| *part != "metadata");
    let fields = parts.filter_map(|(part, fields)| Some((part, fields.as_object()?)));
    fields.flat_map(|(part, fields)| fields.keys().map(move |field| (part, field))).collect()
}

fn give(entries: &mut Vec<Value>, own: Map<String, Value>, writer: &Writer, version: &Value, now: &str) {
    let Writer { manager, status } = writer;
    let subresource = if *status { "status" } else { "" };
    let is_own = |entry: &&mut Value| {
        entry["manager"] == manager.as_str()
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    };
    if let Some(entry) = entries.iter_mut().find(is_own) {
        entry["time"] = now.into();
        json_patch::merge(&mut entry["fieldsV1"], &own.into());
        return;
    }
    let mut entry = json!({
        "manager": manager, "operation": "Update", "apiVersion": version, "time": now,
        "fieldsType": "FieldsV1", "fieldsV1": own,
    });
    if *status {
        entry["subresource"] = subresource.into();
    }
    entries.push(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(manager: &str) -> Writer {
        Writer { manager: manager.into(), status: false }
    }

    fn managers(object: &Value) -> Vec<(String, String)> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.to_string().replace('"', "");
        entries.iter().map(|entry| (text(&entry["manager"]), text(&entry["fieldsV1"]))).collect()
    }

    #[test]
    fn a_field_belongs_to_its_last_writer() {
        let mut first = json!({"metadata": {}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
        stamp(None, &mut first, &writer("controller"), "t1");
        let mut second = first.clone();
        second["status"]["phase"] = "Failed".into();
        stamp(Some(&first), &mut second, &writer("kubelet"), "t2");
        assert_eq!(
            managers(&second),
            [
                ("controller".into(), "{f:status:{f:podIP:{}}}".into()),
                ("kubelet".into(), "{f:status:{f:phase:{}}}".into()),
            ]
        );
        let mut third = second.clone();
        third["status"] = json!({"podIP": "10.0.0.1"});
        stamp(Some(&second), &mut third, &writer("controller"), "t3");
        assert_eq!(managers(&third).len(), 1, "a removed field has no writer");
    }

    #[test]
    fn managed_fields_of_the_caller_are_kept() {
        let given = json!([{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}]);
        let mut object = json!({"metadata": {"managedFields": given}, "status": {"phase": "Failed"}});
        stamp(None, &mut object, &writer("other"), "t1");
        assert_eq!(object["metadata"]["managedFields"], given);
    }
}

//! A stored object: its JSON as clients get it, and what selectors compare.

use hyper::body::Bytes;
use serde_json::Value;

use super::Kind;

/// One version of an object. Only its JSON is kept: a tree of values takes ten times as much memory.
#[derive(Debug)]
pub(crate) struct Object {
    json: Bytes,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the [`selectable`] fields.
    fields: Box<[(&'static str, Box<str>)]>,
}

impl Object {
    /// Encodes an object.
    pub(crate) fn new(kind: Kind, object: &Value) -> Self {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        Self {
            json: encode(object),
            labels: labels.collect(),
            fields: selectable(kind).map(|path| (path, field(object, path))).collect(),
        }
    }

    /// The object as JSON. All clients and events share these octets.
    pub(crate) fn json(&self) -> &Bytes {
        &self.json
    }

    /// Decodes the object.
    pub(crate) fn value(&self) -> Value {
        // It was encoded here.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(own, _)| **own == *key).map(|(_, value)| &**value)
    }

    /// The value of a [`selectable`] field.
    pub(crate) fn field(&self, path: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| *own == path).map(|(_, value)| &**value)
    }
}

/// The JSON of an object, without spare memory behind it.
pub(crate) fn encode(object: &Value) -> Bytes {
    // All objects here have string keys, so serialization always succeeds.
    let json = serde_json::to_vec(object).unwrap_or_default();
    Bytes::from(json.into_boxed_slice())
}

/// The fields that Kubernetes 1.36 can select by.
pub(crate) fn selectable(kind: Kind) -> impl Iterator<Item = &'static str> {
    let own = match kind {
        Kind::Pod => {
            "spec.nodeName spec.hostNetwork spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase \
             status.podIP status.nominatedNodeName"
        }
        Kind::Service => "spec.clusterIP spec.type",
        Kind::Node => "spec.unschedulable",
        Kind::Namespace => "status.phase",
        Kind::Event => {
            "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion \
             involvedObject.resourceVersion involvedObject.fieldPath reason source type reportingComponent"
        }
        _ => "",
    };
    let namespace = kind.namespaced().then_some("metadata.namespace");
    ["metadata.name"].into_iter().chain(namespace).chain(own.split_ascii_whitespace())
}

/// A missing field counts as empty, a missing boolean as false. Events are stored as their writer spelled them.
fn field(object: &Value, path: &str) -> Box<str> {
    let value = path.split('.').fold(object, |value, key| {
        let other_group = match key {
            "involvedObject" => "regarding",
            "reportingComponent" => "reportingController",
            key => key,
        };
        value.get(key).unwrap_or(&value[other_group])
    });
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Null if matches!(path, "spec.hostNetwork" | "spec.unschedulable") => "false".into(),
        Value::Null => "".into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_keeps_its_json_and_what_selectors_compare() {
        let value = json!({
            "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "odd": 7}},
            "spec": {"nodeName": "n"},
        });
        let object = Object::new(Kind::Pod, &value);
        assert_eq!(object.json(), value.to_string().as_bytes());
        assert_eq!(object.value(), value);
        assert_eq!([object.label("app"), object.label("odd")], [Some("web"), None]);
        let fields = ["metadata.namespace", "spec.nodeName", "spec.hostNetwork", "status.phase"];
        let fields = fields.map(|path| object.field(path));
        assert_eq!(fields, [Some("ns"), Some("n"), Some("false"), Some("")]);
    }

    #[test]
    fn an_event_of_either_group_is_selected_by_the_fields_of_the_older_one() {
        for event in [
            json!({"involvedObject": {"name": "web"}, "reportingComponent": "epguard"}),
            json!({"regarding": {"name": "web"}, "reportingController": "epguard"}),
        ] {
            let fields = ["involvedObject.name", "reportingComponent"].map(|path| field(&event, path));
            assert_eq!(fields.map(String::from), ["web", "epguard"]);
        }
    }
}

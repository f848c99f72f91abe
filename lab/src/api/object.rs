//! A stored object: its JSON as clients get it, and what namespace, label and field selectors of
//! lists and watches compare. Of label selectors there are `key=value`, `key!=value` and
//! `key in (a,b)`.

use hyper::body::Bytes;
use serde_json::Value;

use super::{ApiError, Kind};

/// One version of an object. Only its JSON is kept: a tree of values takes ten times as much
/// memory.
#[derive(Debug)]
pub(crate) struct Object {
    /// All clients and events share these octets.
    pub(crate) json: Bytes,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the [`selectable`] fields.
    fields: Box<[(&'static str, Box<str>)]>,
}

impl Object {
    /// Encodes an object.
    pub(crate) fn new(kind: Kind, object: &Value) -> Self {
        let labels = object["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten();
        let labels =
            labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        Self {
            json: encode(object),
            labels: labels.collect(),
            fields: selectable(kind)
                .map(|path| (path, field(object, path)))
                .collect(),
        }
    }

    /// Decodes the object.
    pub(crate) fn value(&self) -> Value {
        // It was encoded here.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

/// The JSON of an object, without spare memory behind it.
pub(crate) fn encode(object: &Value) -> Bytes {
    // All objects here have string keys, so serialization always succeeds.
    let json = serde_json::to_vec(object).unwrap_or_default();
    Bytes::from(json.into_boxed_slice())
}

/// The fields to select by: those of Kubernetes 1.36 that the agent and kubectl ask for.
pub(crate) fn selectable(kind: Kind) -> impl Iterator<Item = &'static str> {
    let own = match kind {
        Kind::Pod => "spec.nodeName status.phase status.podIP",
        Kind::Event => {
            "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid reportingComponent reason type"
        }
        _ => "",
    };
    let namespace = kind.namespaced().then_some("metadata.namespace");
    ["metadata.name"]
        .into_iter()
        .chain(namespace)
        .chain(own.split_ascii_whitespace())
}

/// A field as text, empty if it is missing. Events are stored as their writer spelled them.
fn field(object: &Value, path: &str) -> Box<str> {
    let value = path.split('.').fold(object, |value, key| {
        let other_group = match key {
            "involvedObject" => "regarding",
            "reportingComponent" => "reportingController",
            key => key,
        };
        value.get(key).unwrap_or(&value[other_group])
    });
    value.as_str().unwrap_or_default().into()
}

/// Labels and fields that select objects of one kind in a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

/// A condition on a label or field: its value is one of these, or (`unequal`) none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    values: Vec<String>,
    unequal: bool,
}

impl Selector {
    /// Reads selectors in the form of a query; an empty one selects everything.
    pub(crate) fn parse(kind: Kind, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = requirements(labels)?;
        let fields = requirements(fields)?;
        let unknown = fields
            .iter()
            .find(|field| selectable(kind).all(|path| path != field.key));
        match unknown {
            Some(field) => Err(ApiError::bad_request(format!(
                "field label not supported: {}",
                field.key
            ))),
            None => Ok(Self { labels, fields }),
        }
    }

    /// True if `object` is selected. A missing field counts as empty, a missing label as absent.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels
            .iter()
            .all(|label| label.accepts(&object.labels))
            && self
                .fields
                .iter()
                .all(|field| field.accepts(&object.fields))
    }
}

impl Requirement {
    fn accepts<K: AsRef<str>>(&self, pairs: &[(K, Box<str>)]) -> bool {
        let value = pairs.iter().find(|(key, _)| key.as_ref() == self.key);
        value.is_some_and(|(_, value)| self.values.iter().any(|one| **one == **value))
            != self.unequal
    }
}

/// The conditions of a text: terms between commas that stand outside of parentheses.
fn requirements(text: &str) -> Result<Vec<Requirement>, ApiError> {
    let mut depth = 0_usize;
    let terms = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let mut requirements = Vec::new();
    for term in terms.map(str::trim) {
        if term.is_empty() {
            continue;
        }
        let requirement = requirement(term).ok_or_else(|| {
            ApiError::bad_request(format!("unable to parse the requirement {term:?}"))
        })?;
        requirements.push(requirement);
    }
    Ok(requirements)
}

fn requirement(term: &str) -> Option<Requirement> {
    let set = term
        .strip_suffix(')')
        .and_then(|term| term.split_once(" in ("));
    let (key, values) = set.or_else(|| term.split_once('='))?;
    let (key, unequal) = key
        .strip_suffix('!')
        .map_or((key, false), |key| (key, true));
    let is_known = !key.is_empty() && !key.contains(['(', ' ']) && !values.starts_with('=');
    let values = values.split(',').map(|value| value.trim().to_owned());
    is_known.then(|| Requirement {
        key: key.to_owned(),
        values: values.collect(),
        unequal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_select_as_kubernetes_documents_and_nonsense_is_a_bad_request() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "tier": ""}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
        });
        let object = Object::new(Kind::Pod, &pod);
        assert_eq!(
            (object.value(), &object.json),
            (pod.clone(), &Bytes::from(pod.to_string()))
        );
        for (labels, fields, expected) in [
            ("", "", Ok(true)),
            ("app=web", "", Ok(true)),
            ("app!=web", "", Ok(false)),
            ("other!=web", "", Ok(true)),
            ("app=web,tier=", "", Ok(true)),
            ("app in (db, web),tier=", "", Ok(true)),
            ("app in (db, web),tier=a", "", Ok(false)),
            ("app in (db)", "", Ok(false)),
            ("other in (web)", "", Ok(false)),
            ("", "spec.nodeName=n1,status.phase=Running", Ok(true)),
            ("", "spec.nodeName=n1,status.phase=Failed", Ok(false)),
            ("", "metadata.name=p,metadata.namespace=ns", Ok(true)),
            ("", "status.podIP=", Ok(true)),
            ("a in", "", Err(400)),
            ("a in (", "", Err(400)),
            ("a near (b)", "", Err(400)),
            ("=x", "", Err(400)),
            ("app==web", "", Err(400)),
            ("", "spec.color=red", Err(400)),
            ("", "status.phase", Err(400)),
            ("", "=x", Err(400)),
        ] {
            let selector = Selector::parse(Kind::Pod, labels, fields);
            let selected = selector
                .map(|selector| selector.matches(&object))
                .map_err(|error| error.code);
            assert_eq!(selected, expected, "{labels:?} {fields:?}");
        }
    }

    #[test]
    fn an_event_of_either_group_is_selected_by_the_fields_of_the_older_one() {
        let selector = Selector::parse(
            Kind::Event,
            "",
            "involvedObject.name=web,reportingComponent=e",
        )
        .unwrap();
        for event in [
            json!({"involvedObject": {"name": "web"}, "reportingComponent": "e"}),
            json!({"regarding": {"name": "web"}, "reportingController": "e"}),
        ] {
            assert!(
                selector.matches(&Object::new(Kind::Event, &event)),
                "{event}"
            );
        }
    }
}

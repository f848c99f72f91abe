//! Field and label selectors.

use crate::api::ApiError;
use serde_json::Value;

/// Which objects of a kind a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    /// Empty: all namespaces.
    pub(crate) namespace: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    /// JSON pointer of the value.
    pointer: String,
    value: String,
    equal: bool,
    /// Label terms without a value ask only for the key.
    exists: bool,
}

/// Fields that the real server can select by, for one kind or another.
const FIELDS: [&str; 8] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "status.phase",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "status.podIP",
    "type",
];

impl Selector {
    /// Reads `fieldSelector` and `labelSelector` of a request.
    pub(crate) fn parse(namespace: &str, fields: &str, labels: &str) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for text in fields.split(',').filter(|text| !text.is_empty()) {
            let (field, value, equal) = comparison(text).ok_or_else(|| {
                ApiError::bad_request(format!("invalid field selector {text:?}: use =, == or !="))
            })?;
            if !FIELDS.contains(&field) {
                return Err(ApiError::bad_request(format!(
                    "field label not supported: {field}"
                )));
            }
            let pointer = format!("/{}", field.replace('.', "/"));
            terms.push(Term {
                pointer,
                value: value.into(),
                equal,
                exists: false,
            });
        }
        for text in labels.split(',').filter(|text| !text.is_empty()) {
            let pointer = |key: &str| {
                format!(
                    "/metadata/labels/{}",
                    key.trim().replace('~', "~0").replace('/', "~1")
                )
            };
            terms.push(if let Some((key, value, equal)) = comparison(text) {
                Term {
                    pointer: pointer(key),
                    value: value.into(),
                    equal,
                    exists: false,
                }
            } else {
                let key = text.strip_prefix('!').unwrap_or(text);
                Term {
                    pointer: pointer(key),
                    value: String::new(),
                    equal: key == text,
                    exists: true,
                }
            });
        }
        Ok(Self {
            namespace: namespace.into(),
            terms,
        })
    }

    /// Whether the object is meant.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let here = self.namespace.is_empty() || object["metadata"]["namespace"] == self.namespace.as_str();
        here && self.terms.iter().all(|term| term.matches(object))
    }
}

impl Term {
    fn matches(&self, object: &Value) -> bool {
        let found = object.pointer(&self.pointer);
        if self.exists {
            return found.is_some() == self.equal;
        }
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            // The server compares with the Go zero value: a missing hostNetwork is "false".
            None | Some(Value::Null) if self.pointer.ends_with("/hostNetwork") => "false".into(),
            _ => String::new(),
        };
        (text == self.value) == self.equal
    }
}

fn comparison(text: &str) -> Option<(&str, &str, bool)> {
    let (left, right, equal) = if let Some((left, right)) = text.split_once("!=") {
        (left, right, false)
    } else if let Some((left, right)) = text.split_once("==") {
        (left, right, true)
    } else {
        let (left, right) = text.split_once('=')?;
        (left, right, true)
    };
    Some((left.trim(), right.trim(), equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(fields: &str, labels: &str, object: &Value) -> bool {
        Selector::parse("", fields, labels).unwrap().matches(object)
    }

    #[test]
    fn fields_are_compared_as_text_and_joined_by_and() {
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}});
        assert!(selects("spec.nodeName=n,metadata.name==a", "", &pod));
        assert!(selects(
            "status.phase!=Running,status.phase!=Pending,spec.hostNetwork=false",
            "",
            &pod
        ));
        assert!(!selects("status.phase!=Failed", "", &pod));
    }

    #[test]
    fn labels_with_slashes_and_bare_keys_are_understood() {
        let slice = json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}});
        assert!(selects("", "kubernetes.io/service-name=web", &slice));
        assert!(selects("", "kubernetes.io/service-name,!other", &slice));
        assert!(!selects("", "other", &slice));
    }

    #[test]
    fn a_field_that_no_server_knows_is_an_error() {
        assert_eq!(Selector::parse("", "spec.color=red", "").unwrap_err().code, 400);
    }
}

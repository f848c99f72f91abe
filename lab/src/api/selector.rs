//! Namespace, label and field selectors of lists and watches. Of labels: `key=value`, `key!=value` and `key in (a,b)`.

use super::object::{Object, selectable};
use super::{ApiError, Kind};

/// Namespace, labels and fields that select objects of one kind in a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    namespace: Option<String>,
    labels: Vec<(String, Test)>,
    /// Positions among the kind's selectable fields, each with its condition.
    fields: Vec<(usize, Test)>,
}

/// A condition on a label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    Not(String),
}

impl Selector {
    /// Reads selectors in the form of a query; an empty one selects everything.
    pub(crate) fn parse(
        kind: Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let wrong = |term: &str| ApiError::bad_request(format!("unable to parse the requirement {term:?}"));
        let label = |term| requirement(term).ok_or_else(|| wrong(term));
        let field = |term| {
            let (key, test) = requirement(term).ok_or_else(|| wrong(term))?;
            let position = selectable(kind).position(|field| field == key);
            let unknown = || ApiError::bad_request(format!("field label not supported: {key}"));
            Ok((position.ok_or_else(unknown)?, test))
        };
        let labels = split(labels).map(label).collect::<Result<_, _>>()?;
        let fields = split(fields).map(field).collect::<Result<_, _>>()?;
        Ok(Self { namespace: namespace.map(Into::into), labels, fields })
    }

    /// The only namespace that is selected; none: all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// True if `object` is selected. A missing field counts as empty, a missing label as absent.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.namespace().is_none_or(|namespace| object.namespace() == namespace)
            && self.labels.iter().all(|(key, test)| test.accepts(object.label(key)))
            && self.fields.iter().all(|(position, test)| test.accepts(object.field(*position)))
    }
}

impl Test {
    fn accepts(&self, value: Option<&str>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
            Self::Not(unwanted) => value != Some(unwanted),
        }
    }
}

/// Terms between commas that stand outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
}

/// The key of a term and its condition.
fn requirement(term: &str) -> Option<(String, Test)> {
    let set = term.strip_suffix(')').and_then(|term| term.split_once(" in ("));
    let (key, test) = if let Some((key, values)) = set {
        (key, Test::In(values.split(',').map(|value| value.trim().to_owned()).collect()))
    } else {
        let (key, value) = term.split_once('=')?;
        match key.strip_suffix('!') {
            Some(key) => (key, Test::Not(value.trim().into())),
            None => (key, Test::In(vec![value.strip_prefix('=').unwrap_or(value).trim().into()])),
        }
    };
    let key = key.trim();
    (!key.is_empty() && !key.contains(['(', ' '])).then(|| (key.to_owned(), test))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_select_as_kubernetes_documents() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "web", "tier": ""}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
        });
        let pod = Object::new(Kind::Pod, &pod);
        for (labels, fields, selected) in [
            ("", "", true),
            ("app=web", "", true),
            ("app!=web", "", false),
            ("other!=web", "", true),
            ("app==web,tier=", "", true),
            ("app in (db, web),tier!=a", "", true),
            ("app in (db)", "", false),
            ("other in (web)", "", false),
            ("", "spec.nodeName=n1,status.phase!=Failed", true),
            ("", "status.phase!=Succeeded,status.phase!=Running", false),
            ("", "metadata.name==p,metadata.namespace=ns", true),
            ("", "spec.hostNetwork=false", true),
            ("", "spec.hostNetwork==true", false),
            ("", "status.podIP=", true),
        ] {
            let selector = Selector::parse(Kind::Pod, None, labels, fields).unwrap();
            assert_eq!(selector.matches(&pod), selected, "{labels:?} {fields:?}");
        }
    }

    #[test]
    fn nonsense_is_a_bad_request() {
        for (labels, fields) in [
            ("a in", ""),
            ("a in (", ""),
            ("a near (b)", ""),
            ("=x", ""),
            ("", "spec.color=red"),
            ("", "status.phase"),
            ("", "=x"),
        ] {
            assert_eq!(
                Selector::parse(Kind::Pod, None, labels, fields).unwrap_err().code,
                400,
                "{labels:?} {fields:?}"
            );
        }
    }
}

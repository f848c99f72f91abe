//! Namespace, label and field selectors of lists and watches.

use super::object::{Object, selectable};
use super::{ApiError, Kind};

/// Namespace, labels and fields that select objects of one kind in a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    namespace: Option<String>,
    labels: Vec<Requirement>,
    /// Positions among the kind's selectable fields, each with its condition.
    fields: Vec<(usize, Test)>,
}

/// One condition on a label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// Reads selectors in the form of a query; an empty one selects everything.
    pub(crate) fn parse(
        kind: Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let labels = split(labels).map(label_requirement).collect::<Result<_, _>>()?;
        let fields = split(fields).map(|term| field_requirement(kind, term)).collect::<Result<_, _>>()?;
        Ok(Self { namespace: namespace.map(Into::into), labels, fields })
    }

    /// The only namespace that is selected; none: all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// True without conditions on labels or fields.
    pub(crate) fn takes_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// True if `object` is selected. A missing field counts as empty, a missing label as absent.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.namespace().is_none_or(|namespace| object.namespace() == namespace)
            && self.labels.iter().all(|r| r.test.accepts(object.label(&r.key)))
            && self.fields.iter().all(|(position, test)| test.accepts(object.field(*position)))
    }
}

impl Test {
    fn accepts(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|v| v == value));
        match self {
            Self::In(values) => among(values),
            Self::NotIn(values) => !among(values),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
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

fn label_requirement(term: &str) -> Result<Requirement, ApiError> {
    if let Some(requirement) = comparison(term) {
        return Ok(requirement);
    }
    let wrong = || ApiError::bad_request(format!("unable to parse label selector requirement {term:?}"));
    let mut words = term.splitn(2, |c: char| c.is_whitespace() || c == '(');
    let key = words.next().unwrap_or_default();
    let rest = term[key.len()..].trim();
    let (key, test) = match (key.strip_prefix('!'), rest) {
        (Some(key), "") => (key, Test::Absent),
        (None, "") => (key, Test::Exists),
        (None, rest) => {
            let (operator, values) =
                rest.strip_suffix(')').and_then(|r| r.split_once('(')).ok_or_else(wrong)?;
            let values = values.split(',').map(|v| v.trim().to_owned()).collect();
            match operator.trim() {
                "in" => (key, Test::In(values)),
                "notin" => (key, Test::NotIn(values)),
                _ => return Err(wrong()),
            }
        }
        (Some(_), _) => return Err(wrong()),
    };
    if key.is_empty() || key.contains('=') { Err(wrong()) } else { Ok(Requirement { key: key.into(), test }) }
}

fn field_requirement(kind: Kind, term: &str) -> Result<(usize, Test), ApiError> {
    let Requirement { key, test } = comparison(term).ok_or_else(|| {
        ApiError::bad_request(format!("invalid field selector {term:?}: can't understand it"))
    })?;
    let position = selectable(kind).position(|field| field == key);
    let unknown = || ApiError::bad_request(format!("field label not supported: {key}"));
    Ok((position.ok_or_else(unknown)?, test))
}

/// `key=value`, `key==value` or `key!=value`.
fn comparison(term: &str) -> Option<Requirement> {
    let (key, value) = term.split_once('=').filter(|(key, _)| !key.contains('('))?;
    let (key, test) = match key.strip_suffix('!') {
        Some(key) => (key, Test::NotIn(vec![value.trim().into()])),
        None => (key, Test::In(vec![value.strip_prefix('=').unwrap_or(value).trim().into()])),
    };
    Some(Requirement { key: key.trim().into(), test }).filter(|r| !r.key.is_empty())
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
            ("app==web,tier", "", true),
            ("app!=web", "", false),
            ("other!=web", "", true),
            ("app in (db, web),!gone", "", true),
            ("app notin (db,web)", "", false),
            ("other notin (a)", "", true),
            ("!app", "", false),
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
            ("!", ""),
            ("=x", ""),
            ("!a b", ""),
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

//! Namespace, label and field selectors of lists and watches. Of labels: `key=value`, `key!=value` and `key in (a,b)`.

use super::object::{Object, selectable};
use super::{ApiError, Kind};

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
        let (labels, fields) = (requirements(labels)?, requirements(fields)?);
        let unknown = fields.iter().find(|field| selectable(kind).all(|path| path != field.key));
        match unknown {
            Some(field) => Err(ApiError::bad_request(format!("field label not supported: {}", field.key))),
            None => Ok(Self { labels, fields }),
        }
    }

    /// True if `object` is selected. A missing field counts as empty, a missing label as absent.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.iter().all(|label| label.accepts(object.label(&label.key)))
            && self.fields.iter().all(|field| field.accepts(object.field(&field.key)))
    }
}

impl Requirement {
    fn accepts(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.values.iter().any(|one| one == value)) != self.unequal
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
    let terms = terms.map(str::trim).filter(|term| !term.is_empty());
    let wrong = |term| ApiError::bad_request(format!("unable to parse the requirement {term:?}"));
    terms.map(|term| requirement(term).ok_or_else(|| wrong(term))).collect()
}

fn requirement(term: &str) -> Option<Requirement> {
    let set = term.strip_suffix(')').and_then(|term| term.split_once(" in ("));
    let (key, values, unequal) = if let Some((key, values)) = set {
        (key, values.split(',').map(|value| value.trim().to_owned()).collect(), false)
    } else {
        let (key, value) = term.split_once('=')?;
        let unequal = key.ends_with('!');
        let value = value.strip_prefix('=').filter(|_| !unequal).unwrap_or(value);
        (key.strip_suffix('!').unwrap_or(key), vec![value.trim().to_owned()], unequal)
    };
    let key = key.trim();
    let is_key = !key.is_empty() && !key.contains(['(', ' ']);
    is_key.then(|| Requirement { key: key.to_owned(), values, unequal })
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
        let pod = Object::new(Kind::Pod, &pod);
        for (labels, fields, expected) in [
            ("", "", Ok(true)),
            ("app=web", "", Ok(true)),
            ("app!=web", "", Ok(false)),
            ("other!=web", "", Ok(true)),
            ("app==web,tier=", "", Ok(true)),
            ("app in (db, web),tier!=a", "", Ok(true)),
            ("app in (db)", "", Ok(false)),
            ("other in (web)", "", Ok(false)),
            ("", "spec.nodeName=n1,status.phase!=Failed", Ok(true)),
            ("", "status.phase!=Succeeded,status.phase!=Running", Ok(false)),
            ("", "metadata.name==p,metadata.namespace=ns", Ok(true)),
            ("", "spec.hostNetwork=false", Ok(true)),
            ("", "spec.hostNetwork==true", Ok(false)),
            ("", "status.podIP=", Ok(true)),
            ("a in", "", Err(400)),
            ("a in (", "", Err(400)),
            ("a near (b)", "", Err(400)),
            ("=x", "", Err(400)),
            ("", "spec.color=red", Err(400)),
            ("", "status.phase", Err(400)),
            ("", "=x", Err(400)),
        ] {
            let selector = Selector::parse(Kind::Pod, labels, fields);
            let selected = selector.map(|selector| selector.matches(&pod)).map_err(|error| error.code);
            assert_eq!(selected, expected, "{labels:?} {fields:?}");
        }
    }
}

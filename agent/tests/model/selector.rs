//! What a list selects: a namespace, labels and fields.

use http::Uri;
use serde_json::Value;

/// The conditions of a list.
pub struct Selector {
    namespace: Option<String>,
    /// Pairs of a label and its values.
    labels: Vec<(String, Vec<String>)>,
    /// Pairs of a field's path and its value.
    fields: Vec<(String, String)>,
}

impl Selector {
    pub fn new(uri: &Uri, namespace: Option<String>) -> Self {
        let terms = |name| {
            let text = param(uri, name).map(decoded).unwrap_or_default();
            let terms = text.split(';').filter(|term| !term.is_empty());
            terms.map(ToOwned::to_owned).collect::<Vec<String>>()
        };
        let pair = |term: &String| {
            let (key, value) = term.split_once('=').expect("a comparison");
            (key.to_owned(), value.to_owned())
        };
        let label = |term: &String| match term.split_once(" in (") {
            Some((key, values)) => {
                let values = values.trim_end_matches(')').split(',');
                (key.to_owned(), values.map(ToOwned::to_owned).collect())
            }
            None => {
                let (key, value) = pair(term);
                (key, vec![value])
            }
        };
        Self {
            namespace,
            labels: terms("labelSelector").iter().map(label).collect(),
            fields: terms("fieldSelector").iter().map(pair).collect(),
        }
    }

    pub fn is_all(&self) -> bool {
        self.namespace.is_none() && self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, json: &str) -> bool {
        if self.is_all() {
            return true;
        }
        let object: Value = serde_json::from_str(json).expect("an object");
        let meta = &object["metadata"];
        let namespaces = self.namespace.as_ref();
        let field = |path: &str| path.split('.').fold(&object, |value, key| &value[key]);
        namespaces.is_none_or(|namespace| meta["namespace"] == **namespace)
            && self.fields.iter().all(|(path, value)| *field(path) == **value)
            && self.labels.iter().all(|(key, values)| {
                let value = meta["labels"][key].as_str();
                value.is_some_and(|value| values.iter().any(|known| known == value))
            })
    }
}

/// A parameter of the query as it stands in the URI; none if it is absent or empty, which the API takes alike.
pub fn param<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, value)| *key == name && !value.is_empty())
        .map(|(_, value)| value)
        .next()
}

/// A selector's text, with `;` for each comma that stands outside of parentheses.
fn decoded(text: &str) -> String {
    let text =
        ["%3D/=", "%2C/,", "%28/(", "%29/)", "%2F//", "+/ "]
            .iter()
            .fold(text.to_owned(), |text, pair| {
                let (from, to) = pair.split_once('/').expect("a pair");
                text.replace(from, to)
            });
    let mut depth = 0_usize;
    let terms = text.chars().map(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 { ';' } else { c }
    });
    terms.collect()
}

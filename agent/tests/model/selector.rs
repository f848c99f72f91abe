//! What a list selects: a namespace, labels and fields.

use hyper::Uri;
use serde_json::Value;

/// The conditions of a list.
pub struct Selector {
    namespace: Option<String>,
    /// Pairs of a label and the values that it may have.
    labels: Vec<(String, Vec<String>)>,
    /// Pairs of a field's path and its value.
    fields: Vec<(String, String)>,
}

impl Selector {
    pub fn new(uri: &Uri, namespace: Option<String>) -> Self {
        let text = |name| param(uri, name).map(decoded).unwrap_or_default();
        let pairs = |text: &str| -> Vec<(String, String)> {
            let terms = text.split(',').filter(|term| !term.is_empty());
            let pairs = terms.map(|term| term.split_once('=').expect("a comparison"));
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect()
        };
        let labels = text("labelSelector");
        let labels = if let Some((key, values)) = labels.split_once(" in (") {
            let values = values.trim_end_matches(')').split(',').map(str::to_owned);
            vec![(key.to_owned(), values.collect())]
        } else {
            let pairs = pairs(&labels).into_iter();
            pairs.map(|(key, value)| (key, vec![value])).collect()
        };
        Self {
            namespace,
            labels,
            fields: pairs(&text("fieldSelector")),
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
            && self
                .fields
                .iter()
                .all(|(path, value)| *field(path) == **value)
            && self
                .labels
                .iter()
                .all(|(key, values)| values.iter().any(|value| meta["labels"][key] == **value))
    }
}

/// A parameter of the query as it stands in the URI; none if it is absent or empty, which the API
/// takes alike.
pub fn param<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let pairs = uri
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, value)| *key == name && !value.is_empty())
        .map(|(_, value)| value)
        .next()
}

fn decoded(text: &str) -> String {
    let decoded = [
        ("+", " "),
        ("%3D", "="),
        ("%2C", ","),
        ("%2F", "/"),
        ("%28", "("),
        ("%29", ")"),
    ];
    let replace = |text: String, (code, plain): &(&str, &str)| text.replace(code, plain);
    decoded.iter().fold(text.to_owned(), replace)
}

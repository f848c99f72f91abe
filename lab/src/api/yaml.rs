//! Reads objects from YAML and JSON.

use serde_json::Value;

/// Reads every document of a YAML (or JSON) text; empty ones are skipped. Only `true` and `false` are booleans, so that a
/// Pod may be called `n` or `on` (kubectl still wants quotes there).
pub fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    serde_saphyr::from_multiple_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

/// Reads every object of a YAML or JSON text of any size, also those in a `List` or a `PodList`, as kubectl writes them.
pub fn objects(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let documents = match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => serde_saphyr::from_multiple_with_options(
            text,
            serde_saphyr::options! { strict_booleans: true, budget: None },
        )?,
    };
    Ok(documents.into_iter().flat_map(items).collect())
}

/// The items of a list, or the object itself. Items of a `PodList` have no kind of their own.
fn items(mut object: Value) -> Vec<Value> {
    let kind = object["kind"].as_str().and_then(|kind| kind.strip_suffix("List"));
    let Some(kind) = kind.map(str::to_owned) else {
        return vec![object];
    };
    let Value::Array(mut items) = object["items"].take() else {
        return vec![object];
    };
    for item in items
        .iter_mut()
        .filter(|item| item.is_object() && item["kind"].is_null())
    {
        item["kind"] = kind.as_str().into();
        item["apiVersion"] = object["apiVersion"].clone();
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_other_yaml_takes_for_booleans_are_text() {
        let text = "---\n{name: n}\n---\n---\nname: on\nport: 80\nup: true\n";
        assert_eq!(
            documents(text).unwrap(),
            [
                json!({"name": "n"}),
                json!({"name": "on", "port": 80, "up": true})
            ]
        );
        assert!(documents("a: [").is_err());
    }

    #[test]
    fn lists_are_read_as_their_items_and_items_without_a_kind_get_it_from_the_list() {
        let list = "kind: List\nitems:\n- {kind: Node, metadata: {name: n}}\n---\nkind: PodList\napiVersion: v1\nitems:\n- {metadata: {name: p}}\n";
        let expected = [
            json!({"kind": "Node", "metadata": {"name": "n"}}),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}),
        ];
        assert_eq!(objects(list).unwrap(), expected);
        let json = json!({"kind": "List", "items": expected}).to_string();
        assert_eq!(objects(&json).unwrap(), expected);
    }

    #[test]
    fn a_file_of_more_than_250_000_nodes_is_read() {
        let mut list = "kind: PodList\napiVersion: v1\nitems:\n".to_owned();
        for number in 0..30_000 {
            list.push_str("- {metadata: {name: p");
            list.push_str(&number.to_string());
            list.push_str(", labels: {a: b, c: d}}}\n");
        }
        assert_eq!(objects(&list).unwrap().len(), 30_000);
    }
}

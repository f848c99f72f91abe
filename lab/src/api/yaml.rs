//! Reads YAML and JSON.

use serde_json::Value;

/// Reads every document of a YAML (or JSON) text of any size; empty ones are skipped. Only `true` and `false` are booleans, so
/// that a Pod may be called `n` or `on` (kubectl still wants quotes there).
pub fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true, budget: None };
    // Several times as fast, for lists of many pods.
    let json = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>();
    json.or_else(|_| serde_saphyr::from_multiple_with_options(text, options))
}

/// The objects of a text: those in lists, too. Items need no type where their list has one.
pub fn objects(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    Ok(documents(text)?.into_iter().flat_map(items).collect())
}

fn items(mut document: Value) -> Vec<Value> {
    let kind = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let Some(kind) = kind else { return vec![document] };
    let mut items = document["items"].take().as_array_mut().map(std::mem::take).unwrap_or_default();
    for item in items.iter_mut().filter(|item| item.is_object() && item["kind"].is_null()) {
        item["kind"] = kind.as_str().into();
        item["apiVersion"] = document["apiVersion"].clone();
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
        let expected = [json!({"name": "n"}), json!({"name": "on", "port": 80, "up": true})];
        assert_eq!(documents(text).unwrap(), expected);
        assert!(documents("a: [").is_err());
    }

    #[test]
    fn lists_are_read_as_their_items_and_items_without_a_kind_get_it_from_the_list() {
        let list = "kind: List\nitems:\n- {kind: Node, metadata: {name: n}}\n---\n# nothing\n---\nkind: PodList\napiVersion: v1\n\
                    items:\n- {metadata: {name: p}}\n";
        let expected = [
            json!({"kind": "Node", "metadata": {"name": "n"}}),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}),
        ];
        assert_eq!(objects(list).unwrap(), expected);
        let json = json!({"kind": "List", "items": expected}).to_string();
        assert_eq!(objects(&format!("{json}\n{json}\n")).unwrap().len(), 4);
        assert_eq!(objects("{items: null, kind: List}").unwrap(), [] as [Value; 0]);
    }

    #[test]
    fn a_list_of_more_than_250_000_yaml_nodes_is_read() {
        let item = "- {metadata: {name: p, labels: {a: b, c: d}}}\n";
        let list = format!("kind: PodList\napiVersion: v1\nitems:\n{}", item.repeat(30_000));
        assert_eq!(objects(&list).unwrap().len(), 30_000);
    }
}

//! Reads documents of other versions: an entry that this version has no name for is left out, so
//! that the rest is read.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The entries of a map whose key and value this version knows.
pub fn entries<'de, D, K, V>(from: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: DeserializeOwned + Ord,
    V: DeserializeOwned,
{
    let mut entries = BTreeMap::new();
    for (key, value) in BTreeMap::<String, Value>::deserialize(from)? {
        if let Some(key) = value_if_known(Value::String(key))
            && let Some(value) = value_if_known(value)
        {
            entries.insert(key, value);
        }
    }
    Ok(entries)
}

/// The items of a list that this version knows.
pub fn items<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::deserialize(from)?
        .into_iter()
        .filter_map(value_if_known)
        .collect())
}

/// A value, or the default for one that this version does not know.
pub fn value<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(value_if_known(Value::deserialize(from)?).unwrap_or_default())
}

fn value_if_known<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

#[cfg(test)]
mod tests {
    use crate::shared::status::{ModeSource, Status};
    use epguard_common::{Mode, Reason};
    use serde_json::{Value, json};

    /// A document without any content, with these values.
    fn document(changed: &[(&str, Value)]) -> Status {
        let mut document = serde_json::to_value(Status::default()).unwrap();
        for (pointer, value) in changed {
            *document.pointer_mut(pointer).unwrap() = value.clone();
        }
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_partial_answers_of_an_older_agent_are_read() {
        let older = document(&[("/modeSource", json!("")), ("/figures/evicted", json!({}))]);
        assert_eq!(older.mode_source, ModeSource::Unknown);
    }

    #[test]
    fn names_of_a_newer_agent_are_left_out_and_the_rest_is_read() {
        let newer = document(&[
            ("/reasons", json!({"reused": "enforce", "moved": "enforce"})),
            ("/wrongDenies", json!({"moved": 1})),
            ("/demoted", json!(["moved", "reused"])),
            ("/watches", json!({"gateways": {}})),
            ("/applied", json!({"gateways": 1, "pods": 2})),
            ("/figures/pods", json!({"frozen": 1})),
            ("/modeSource", json!("crd")),
        ]);
        assert_eq!(newer.reasons, [(Reason::Reused, Mode::Enforce)].into());
        assert_eq!(
            (newer.demoted, newer.applied.len()),
            (vec![Reason::Reused], 1)
        );
        assert!(
            newer.watches.is_empty()
                && newer.wrong_denies.is_empty()
                && newer.figures.pods.is_empty()
        );
    }
}

//! What the operator wants of all nodes, in a `ConfigMap`.
//!
//! ```yaml
//! data:
//!   mode: observe            # every node's; without it, its flags count
//!   canary-mode: enforce     # instead, on nodes with the label epguard.io/canary=true
//!   retired-backend: observe # and terminated, reused, dead-backend: most that is done for one reason
//! ```

use super::{Ignored, Meta, Object, Unreadable, null_is_default, parse};
use epguard_common::{Mode, Reason};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fleet {
    /// What its keys ask for.
    pub wish: Wish,
    /// Keys and values that mean nothing, in one line each. Half of what an operator wants may be the opposite of it, so a
    /// map with an error only lowers modes.
    pub errors: Vec<String>,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// Of every node.
    pub mode: Option<Mode>,
    /// Of canaries.
    pub canary_mode: Option<Mode>,
    /// Most that is done for one reason.
    pub reasons: BTreeMap<Reason, Mode>,
}

impl Object for Fleet {
    const KIND: &'static str = "ConfigMap";
    const PATH: &'static str = "/api/v1/configmaps";

    fn read(json: &[u8], ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let RawConfigMap { metadata, data } = parse(json)?;
        if metadata.name.is_empty() {
            return Err(Unreadable::because("ConfigMap without a name"));
        }
        let (wish, errors) = Wish::read(&data);
        let told = errors
            .iter()
            .map(|error| format!("{error}; only keys that lower a mode count"));
        ignored.extend(told);
        Ok(Self { wish, errors })
    }
}

impl Wish {
    fn read(data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let (mut wish, mut errors) = (Self::default(), Vec::new());
        for (key, value) in data {
            errors.extend(wish.set(key, value).err());
        }
        (wish, errors)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mode = Mode::parse(value.trim())
            .ok_or_else(|| format!("{key}: {value:?} is not a mode: off, observe or enforce"));
        match (key, Reason::parse(key)) {
            ("mode", _) => self.mode = Some(mode?),
            ("canary-mode", _) => self.canary_mode = Some(mode?),
            (_, Some(reason)) => drop(self.reasons.insert(reason, mode?)),
            (other, None) => {
                return Err(format!(
                    "{other} is no key: mode, canary-mode, dead-backend, reused, retired-backend, terminated"
                ));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct RawConfigMap {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_is_default")]
    data: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(data: &serde_json::Value) -> (Fleet, Ignored) {
        let object = json!({"metadata": {"name": "epguard", "namespace": "epguard"}, "data": data});
        let mut ignored = Ignored::new();
        let fleet = Fleet::read(object.to_string().as_bytes(), &mut ignored).unwrap();
        (fleet, ignored)
    }

    #[test]
    fn every_key_is_a_mode() {
        let (fleet, _) = read(&json!({"mode": "observe", "canary-mode": "enforce\n", "reused": "off"}));
        let wish = Wish {
            mode: Some(Mode::Observe),
            canary_mode: Some(Mode::Enforce),
            reasons: [(Reason::Reused, Mode::Off)].into(),
        };
        let errors = vec![];
        assert_eq!(fleet, Fleet { wish, errors });
        assert_eq!(read(&json!(null)), (Fleet::default(), vec![]));
    }

    #[test]
    fn a_typing_error_is_named_and_the_other_keys_are_read() {
        let (fleet, ignored) = read(&json!({"mode": "enforc", "reused": "off"}));
        let error = "mode: \"enforc\" is not a mode: off, observe or enforce";
        assert_eq!(fleet.errors, [error]);
        assert_eq!(ignored, [format!("{error}; only keys that lower a mode count")]);
        assert_eq!(fleet.wish.reasons, [(Reason::Reused, Mode::Off)].into());
        let (fleet, _) = read(&json!({"mode": "observe", "canary": "enforce"}));
        assert!(
            fleet.errors[0].starts_with("canary is no key: mode, "),
            "{fleet:?}"
        );
        assert_eq!(fleet.wish.mode, Some(Mode::Observe));
    }
}

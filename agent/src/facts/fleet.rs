//! What the operator wants of all nodes, in a `ConfigMap`.
//!
//! ```yaml
//! data:
//!   mode: observe            # every node's; without it, its flags count
//!   canary-mode: enforce     # instead, on nodes with the label epguard.io/canary=true
//!   retired-backend: observe # and terminated, reused, dead-backend: most that is done for one reason
//! ```

use super::{Ignored, Meta, Object, null_is_default, parse};
use anyhow::{Context as _, bail};
use epguard_common::{Mode, Reason};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The `ConfigMap`; none with a key or a value that nobody knows: half of what somebody wants may be the opposite of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fleet(pub Option<Wish>);

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

    fn read(json: &[u8], ignored: &mut Ignored) -> anyhow::Result<Self> {
        let RawConfigMap { metadata, data } = parse(json)?;
        anyhow::ensure!(!metadata.name.is_empty(), "ConfigMap without a name");
        let wish =
            Wish::read(&data).map_err(|error| ignored.push(format!("{error:#}; the modes stay as they are")));
        Ok(Self(wish.ok()))
    }
}

impl Wish {
    fn read(data: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let mut wish = Self::default();
        for (key, value) in data {
            let mode = Mode::parse(value.trim())
                .with_context(|| format!("{key}: {value:?} is not a mode: off, observe or enforce"))?;
            match key.as_str() {
                "mode" => wish.mode = Some(mode),
                "canary-mode" => wish.canary_mode = Some(mode),
                other => {
                    let Some(reason) = Reason::parse(other) else {
                        bail!(
                            "{other} is no key: mode, canary-mode, dead-backend, reused, retired-backend, terminated"
                        );
                    };
                    wish.reasons.insert(reason, mode);
                }
            }
        }
        Ok(wish)
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

    fn read(data: &serde_json::Value) -> Result<Wish, String> {
        let object = json!({"metadata": {"name": "epguard", "namespace": "epguard"}, "data": data});
        let mut ignored = Ignored::new();
        let Fleet(wish) = Fleet::read(object.to_string().as_bytes(), &mut ignored).unwrap();
        wish.ok_or_else(|| ignored.concat())
    }

    #[test]
    fn every_key_is_a_mode() {
        let fleet = read(&json!({"mode": "observe", "canary-mode": "enforce\n", "reused": "off"}));
        let wanted = Wish {
            mode: Some(Mode::Observe),
            canary_mode: Some(Mode::Enforce),
            reasons: [(Reason::Reused, Mode::Off)].into(),
        };
        assert_eq!(fleet, Ok(wanted));
        assert_eq!(read(&json!(null)), Ok(Wish::default()));
    }

    #[test]
    fn a_typing_error_is_no_half_of_a_wish() {
        let wrong = read(&json!({"mode": "enforc"})).unwrap_err();
        assert_eq!(
            wrong,
            "mode: \"enforc\" is not a mode: off, observe or enforce; the modes stay as they are"
        );
        let wrong = read(&json!({"mode": "observe", "canary": "enforce"})).unwrap_err();
        assert!(wrong.starts_with("canary is no key: mode, "), "{wrong}");
    }
}

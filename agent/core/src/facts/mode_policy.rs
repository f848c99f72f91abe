//! The mode policy: the modes that the operator sets for all nodes, in a `ConfigMap`.
//!
//! ```yaml
//! data:
//!   mode: observe            # of every node; without it, the node's flags count
//!   canary-mode: enforce     # instead, on nodes with the label epguard.io/canary=true
//!   retired-backend: observe # highest mode for one reason, by its name
//! ```

use super::json::OrDefault;
use super::meta::{Ignored, Unreadable};
use super::object::{Object, RawObject};
use epguard_common::{Mode, OneOf, Reason};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

const MODE: &str = "mode";
const CANARY_MODE: &str = "canary-mode";

/// The `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModePolicy {
    /// The modes that its keys set.
    pub wanted: WantedModes,
    /// Invalid keys and values, one line each. Half of a policy may do the opposite of the whole,
    /// so a `ConfigMap` with an error only lowers modes.
    pub errors: Vec<String>,
}

/// The modes that the `ConfigMap` sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedModes {
    /// For every node.
    pub mode: Option<Mode>,
    /// For canaries.
    pub canary_mode: Option<Mode>,
    /// Highest mode for each reason.
    pub reasons: BTreeMap<Reason, Mode>,
}

impl Object for ModePolicy {
    const KIND: &'static str = "ConfigMap";
    const PATH: &'static str = "/api/v1/configmaps";

    type Raw<'a> = RawObject<'a, IgnoredAny, IgnoredAny, OrDefault<BTreeMap<String, String>>>;

    fn from_named(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let mut wanted = WantedModes::default();
        let mut errors = Vec::new();
        for (key, value) in raw.data.iter() {
            if let Err(error) = wanted.set(key, value) {
                ignored.push(format!("{error}; only keys that lower a mode are applied"));
                errors.push(error);
            }
        }
        Ok(Self { wanted, errors })
    }
}

impl WantedModes {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let mode = Mode::from_name(value.trim())
            .ok_or_else(|| format!("{key}: {value:?} is not a mode: {}", OneOf(Mode::ALL)));
        match key {
            MODE => self.mode = Some(mode?),
            CANARY_MODE => self.canary_mode = Some(mode?),
            _ => {
                let reason = Reason::parse(key).ok_or_else(|| {
                    let reasons = OneOf(Reason::TO_DENY.map(Reason::as_str));
                    format!("{key} is no key: {MODE}, {CANARY_MODE}, {reasons}")
                })?;
                self.reasons.insert(reason, mode?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(data: &serde_json::Value) -> (ModePolicy, Ignored) {
        let object = json!({"metadata": {"name": "epguard", "namespace": "epguard"}, "data": data});
        let mut ignored = Ignored::new();
        let policy = ModePolicy::read(object.to_string().as_bytes(), &mut ignored).unwrap();
        (policy, ignored)
    }

    #[test]
    fn every_key_is_a_mode() {
        let (policy, _) =
            read(&json!({"mode": "observe", "canary-mode": "enforce\n", "reused": "off"}));
        let wanted = WantedModes {
            mode: Some(Mode::Observe),
            canary_mode: Some(Mode::Enforce),
            reasons: [(Reason::Reused, Mode::Off)].into(),
        };
        let errors = vec![];
        assert_eq!(policy, ModePolicy { wanted, errors });
        assert_eq!(read(&json!(null)), (ModePolicy::default(), vec![]));
    }

    #[test]
    fn a_typing_error_is_named_and_the_other_keys_are_read() {
        let (policy, ignored) = read(&json!({"mode": "enforc", "reused": "off"}));
        let error = "mode: \"enforc\" is not a mode: off, observe or enforce";
        assert_eq!(policy.errors, [error]);
        assert_eq!(
            ignored,
            [format!("{error}; only keys that lower a mode are applied")]
        );
        assert_eq!(policy.wanted.reasons, [(Reason::Reused, Mode::Off)].into());
        let (policy, _) = read(&json!({"mode": "observe", "canary": "enforce"}));
        assert!(
            policy.errors[0].starts_with("canary is no key: mode, "),
            "{policy:?}"
        );
        assert_eq!(policy.wanted.mode, Some(Mode::Observe));
    }
}

//! The mode policy: what the operator sets for all nodes, in a `ConfigMap`.
//!
//! ```yaml
//! data:
//!   mode: observe             # of every node; without it, the node's flags count
//!   canary-mode: enforce      # instead, on nodes with the label epguard.io/canary=true
//!   retired-backend: observe  # highest mode for one reason, by its name
//!   action: reject            # of every node, for all reasons; without it, the node's flags count
//!   canary-action: drop       # instead, on canaries
//!   terminated-action: drop   # for one reason, before both
//!   breaker-release: "812345 shop/web"  # denials of shop/web that were stopped by then
//! ```

mod key;

pub use key::PolicyKey;

use super::breaker_release::BreakerRelease;
use super::json::OrDefault;
use super::meta::{Ignored, Unreadable};
use super::object::{Object, RawObject};
use epguard_common::{Action, Mode, OneOf, Reason};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModePolicy {
    /// The modes that its keys set.
    pub modes: WantedModes,
    /// The actions that its keys set.
    pub actions: WantedActions,
    /// The stopped denials that it releases.
    pub release: Option<BreakerRelease>,
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

/// The actions that the `ConfigMap` sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedActions {
    /// For every node and all reasons.
    pub action: Option<Action>,
    /// For canaries and all reasons.
    pub canary_action: Option<Action>,
    /// For single reasons, on every node.
    pub reasons: BTreeMap<Reason, Action>,
}

impl Object for ModePolicy {
    const KIND: &'static str = "ConfigMap";
    const PATH: &'static str = "/api/v1/configmaps";

    type Raw<'a> = RawObject<'a, IgnoredAny, IgnoredAny, OrDefault<BTreeMap<String, String>>>;

    fn from_named(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let mut policy = Self::default();
        for (key, value) in raw.data.iter() {
            if let Err(error) = policy.set(key, value.trim()) {
                ignored.push(format!("{error}; only keys that lower a mode are applied"));
                policy.errors.push(error);
            }
        }
        Ok(policy)
    }
}

impl ModePolicy {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match PolicyKey::parse(key)? {
            PolicyKey::Mode => self.modes.mode = Some(mode(key, value)?),
            PolicyKey::CanaryMode => self.modes.canary_mode = Some(mode(key, value)?),
            PolicyKey::ReasonMode(reason) => {
                self.modes.reasons.insert(reason, mode(key, value)?);
            }
            PolicyKey::Action => self.actions.action = Some(action(key, value)?),
            PolicyKey::CanaryAction => self.actions.canary_action = Some(action(key, value)?),
            PolicyKey::ReasonAction(reason) => {
                self.actions.reasons.insert(reason, action(key, value)?);
            }
            PolicyKey::BreakerRelease => self.release = Some(release(key, value)?),
        }
        Ok(())
    }
}

fn mode(key: &str, value: &str) -> Result<Mode, String> {
    Mode::from_name(value)
        .ok_or_else(|| format!("{key}: {value:?} is not a mode: {}", OneOf(Mode::ALL)))
}

fn action(key: &str, value: &str) -> Result<Action, String> {
    Action::of_operator(value).ok_or_else(|| {
        let actions = OneOf(Action::all_of_operator());
        format!("{key}: {value:?} is not an action: {actions}")
    })
}

fn release(key: &str, value: &str) -> Result<BreakerRelease, String> {
    BreakerRelease::parse(value).ok_or_else(|| {
        format!(
            "{key}: {value:?} is no release: RESOURCEVERSION [NAMESPACE/NAME ...], as kubectl epguard breaker --release writes it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ObjectName;
    use serde_json::json;

    fn read(data: &serde_json::Value) -> (ModePolicy, Ignored) {
        let object = json!({"metadata": {"name": "epguard", "namespace": "epguard"}, "data": data});
        let mut ignored = Ignored::new();
        let policy = ModePolicy::read(object.to_string().as_bytes(), &mut ignored).unwrap();
        (policy, ignored)
    }

    #[test]
    fn every_key_is_read() {
        let (policy, _) = read(&json!({
            "mode": "observe", "canary-mode": "enforce\n", "reused": "off",
            "action": "reject", "canary-action": " drop", "terminated-action": "drop",
            "breaker-release": "12 shop/web",
        }));
        let expected = ModePolicy {
            modes: WantedModes {
                mode: Some(Mode::Observe),
                canary_mode: Some(Mode::Enforce),
                reasons: [(Reason::Reused, Mode::Off)].into(),
            },
            actions: WantedActions {
                action: Some(Action::Reject),
                canary_action: Some(Action::Drop),
                reasons: [(Reason::Terminated, Action::Drop)].into(),
            },
            release: Some(BreakerRelease {
                until: 12,
                services: vec![ObjectName::new("shop", "web")],
            }),
            errors: vec![],
        };
        assert_eq!(policy, expected);
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
        assert_eq!(policy.modes.reasons, [(Reason::Reused, Mode::Off)].into());
        let (policy, _) = read(&json!({"mode": "observe", "canary": "enforce"}));
        assert!(
            policy.errors[0].starts_with("canary is no key: mode, "),
            "{policy:?}"
        );
        assert_eq!(policy.modes.mode, Some(Mode::Observe));
    }

    /// `redirect` is for the owner of a Service alone.
    #[test]
    fn an_action_that_an_operator_may_not_choose_and_a_release_of_no_version_are_errors() {
        for (key, value, error) in [
            (
                "action",
                "redirect",
                "action: \"redirect\" is not an action: drop or reject",
            ),
            (
                "reused-action",
                "",
                "reused-action: \"\" is not an action: drop or reject",
            ),
            (
                "breaker-release",
                "shop/web",
                "breaker-release: \"shop/web\" is no release: ",
            ),
        ] {
            let (policy, _) = read(&json!({key: value}));
            assert!(policy.errors[0].starts_with(error), "{policy:?}");
            let unset = ModePolicy {
                errors: policy.errors.clone(),
                ..ModePolicy::default()
            };
            assert_eq!(policy, unset);
        }
    }
}

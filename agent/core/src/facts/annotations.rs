//! The annotations of owners, `epguard.io/mode` and `epguard.io/action`; and Namespaces, of which
//! only these matter.

use super::meta::{Ignored, Meta, Unreadable};
use super::object::{Object, RawObject};
use super::text::{Text, shared};
use epguard_common::{Action, Mode, OneOf};
use serde::de::IgnoredAny;

/// On a Namespace, a Service or a Pod: the most that its owner allows.
const MODE: &str = "epguard.io/mode";

/// On a Service: how its denials are carried out, an action that its owner may choose.
const ACTION: &str = "epguard.io/action";

/// A Namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The namespace's name.
    pub name: Text,
    /// Highest mode for its Services and pods that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
}

impl Object for Namespace {
    const KIND: &'static str = "Namespace";
    const PATH: &'static str = "/api/v1/namespaces";
    const NAMESPACED: bool = false;

    type Raw<'a> = RawObject<'a, IgnoredAny, IgnoredAny>;

    fn from_named(raw: Self::Raw<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        Ok(Self {
            bound: raw.metadata.bound(ignored),
            name: shared(&raw.metadata.name),
        })
    }
}

impl Meta<'_> {
    /// Highest mode that the object's owner allows. It only ever lowers what the operator allows,
    /// so `enforce` means the same as no annotation. The writer of any other value wanted to be
    /// spared, but how far is unknown: it means `observe`, which drops nothing and shows what would
    /// be dropped.
    pub(super) fn bound(&self, ignored: &mut Ignored) -> Mode {
        let Some(text) = self.annotations.get(MODE) else {
            return Mode::Enforce;
        };
        Mode::from_name(text).unwrap_or_else(|| {
            ignored.push(format!(
                "annotation {MODE}: {} is not {}; taken for {}",
                brief(text),
                OneOf(Mode::ALL),
                Mode::Observe
            ));
            Mode::Observe
        })
    }

    /// The action that the Service asks for; unset without the annotation, or with another value.
    pub(super) fn action(&self, ignored: &mut Ignored) -> Action {
        let Some(text) = self.annotations.get(ACTION) else {
            return Action::Unset;
        };
        if let Some(action) = Action::from_name(text)
            && action.choosers().service
        {
            return action;
        }
        let choices = Action::ALL
            .into_iter()
            .filter(|action| action.choosers().service);
        ignored.push(format!(
            "annotation {ACTION}: {} is not {}; ignored",
            brief(text),
            OneOf(choices)
        ));
        Action::Unset
    }
}

/// How much of a value is shown.
const VALUE: usize = 64;

/// The beginning of a value, in quotation marks.
pub(super) fn brief(value: &str) -> String {
    let shown = cut(value, VALUE);
    let rest = if shown.len() < value.len() { "..." } else { "" };
    format!("{shown:?}{rest}")
}

/// At most so many octets of a text, whole characters only.
pub fn cut(text: &str, octets: usize) -> &str {
    &text[..text.floor_char_boundary(octets)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Pod, Service};
    use serde_json::{Value, json};

    fn object(annotations: &Value) -> Vec<u8> {
        let metadata =
            json!({"name": "n", "namespace": "shop", "uid": "u", "annotations": annotations});
        json!({"metadata": metadata}).to_string().into_bytes()
    }

    #[test]
    fn namespaces_services_and_pods_are_read_alike() {
        for (annotations, expected) in [
            (json!({"epguard.io/mode": "off"}), Mode::Off),
            (json!({"epguard.io/mode": "observe"}), Mode::Observe),
            (json!({"epguard.io/mode": "enforce"}), Mode::Enforce),
            (json!({"epguard.io/mode": "Off"}), Mode::Observe),
            (json!({"other.io/mode": "off"}), Mode::Enforce),
            (Value::Null, Mode::Enforce),
        ] {
            let json = object(&annotations);
            let bounds = [
                Namespace::parse(&json).unwrap().bound,
                Service::parse(&json).unwrap().bound,
                Pod::parse(&json).unwrap().bound,
            ];
            assert_eq!(bounds, [expected; 3], "{annotations}");
        }
    }

    #[test]
    fn a_service_chooses_its_action_and_unknown_modes_and_actions_are_reported_in_a_short_line() {
        let long = "a".repeat(250_000);
        let (observe, enforce) = (Mode::Observe, Mode::Enforce);
        for (mode, action, expected, reported) in [
            (None, None, (enforce, Action::Unset), 0),
            (None, Some("drop"), (enforce, Action::Drop), 0),
            (None, Some("reject"), (enforce, Action::Reject), 0),
            (None, Some("redirect"), (enforce, Action::Redirect), 0),
            (None, Some("Redirect"), (enforce, Action::Unset), 1),
            (None, Some("unset"), (enforce, Action::Unset), 1),
            (None, Some(""), (enforce, Action::Unset), 1),
            (None, Some("redirect=eth0"), (enforce, Action::Unset), 1),
            (Some("Off"), None, (observe, Action::Unset), 1),
            (Some("disabled"), None, (observe, Action::Unset), 1),
            (Some(""), None, (observe, Action::Unset), 1),
            (Some("false"), None, (observe, Action::Unset), 1),
            (Some(" off"), None, (observe, Action::Unset), 1),
            (Some(&*long), Some(&*long), (observe, Action::Unset), 2),
        ] {
            let row = format!("{:?} {:?}", mode.map(brief), action.map(brief));
            let annotations = [("epguard.io/mode", mode), ("epguard.io/action", action)];
            let given: Value = annotations
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect();
            let mut ignored = Ignored::new();
            let service = Service::read(&object(&given), &mut ignored).unwrap();
            assert_eq!((service.bound, service.on_denial.action), expected, "{row}");
            assert_eq!(ignored.len(), reported, "{row}");
            let value = brief(mode.or(action).unwrap_or_default());
            assert!(
                ignored
                    .iter()
                    .all(|line| line.len() < 200 && line.contains(&value)),
                "{row}: {ignored:?}"
            );
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(brief("of"), r#""of""#);
        assert_eq!(brief(&"a".repeat(65)), format!("{:?}...", "a".repeat(64)));
        assert_eq!(brief(&"ä".repeat(40)), format!("{:?}...", "ä".repeat(32)));
        assert_eq!(cut(&format!("a{}", "ä".repeat(40)), 64).len(), 63);
    }
}

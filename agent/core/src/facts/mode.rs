//! The annotation `epguard.io/mode`: the most that an owner allows.

use super::brief::brief;
use super::{Ignored, Meta};
use epguard_common::{Mode, OneOf};

/// On a Namespace, a Service or a Pod: a mode.
const ANNOTATION: &str = "epguard.io/mode";

impl Meta<'_> {
    /// Highest mode that the object's owner allows. It only ever lowers what the operator allows, so `enforce` means
    /// the same as no annotation. The writer of any other value wanted to be spared, but how far is unknown: it means
    /// `observe`, which drops nothing and shows what would be dropped.
    pub(super) fn bound(&self, ignored: &mut Ignored) -> Mode {
        let Some(text) = self.annotations.get(ANNOTATION) else {
            return Mode::Enforce;
        };
        Mode::named(text).unwrap_or_else(|| {
            ignored.push(format!(
                "annotation {ANNOTATION}: {} is not {}; taken for {}",
                brief(text),
                OneOf(Mode::ALL),
                Mode::Observe
            ));
            Mode::Observe
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Namespace, Object as _, Pod, Service};
    use super::*;
    use serde_json::{Value, json};

    fn object(annotations: &Value) -> Vec<u8> {
        let metadata = json!({"name": "n", "namespace": "shop", "uid": "u", "annotations": annotations});
        json!({"metadata": metadata}).to_string().into_bytes()
    }

    #[test]
    fn namespaces_services_and_pods_are_read_alike() {
        for (annotations, expected) in [
            (json!({"epguard.io/mode": "off"}), Mode::Off),
            (json!({"epguard.io/mode": "observe"}), Mode::Observe),
            (json!({"epguard.io/mode": "enforce"}), Mode::Enforce),
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
    fn a_large_invalid_mode_is_reported_in_a_short_line() {
        let mut ignored = Ignored::new();
        let annotations =
            json!({"epguard.io/mode": "a".repeat(250_000), "epguard.io/action": "a".repeat(250_000)});
        Service::read(&object(&annotations), &mut ignored).unwrap();
        assert_eq!(ignored.len(), 2);
        assert!(ignored.iter().all(|line| line.len() < 200));
    }

    #[test]
    fn an_unknown_mode_counts_as_observe_and_is_reported() {
        for odd in ["Off", "disabled", "", "false", " off"] {
            let mut ignored = Ignored::new();
            let pod = Pod::read(&object(&json!({"epguard.io/mode": odd})), &mut ignored).unwrap();
            assert_eq!(pod.bound, Mode::Observe, "{odd:?}");
            assert!(
                matches!(ignored.as_slice(), [error] if error.contains(&format!("{odd:?}"))),
                "{ignored:?}"
            );
        }
    }
}

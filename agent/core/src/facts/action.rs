//! The annotation `epguard.io/action`: how denials of a Service are carried out.

use super::brief::brief;
use super::{Ignored, Meta};
use epguard_common::Action;

/// On a Service: `drop`, `reject` or `redirect`.
const ANNOTATION: &str = "epguard.io/action";

impl Meta {
    /// The action that the Service asks for; unset without the annotation, or with another value.
    pub(super) fn action(&self, ignored: &mut Ignored) -> Action {
        let Some(text) = self.annotations.get(ANNOTATION) else {
            return Action::Unset;
        };
        let choices = [Action::Drop, Action::Reject, Action::Redirect];
        let chosen = choices.into_iter().find(|action| action.as_str() == text);
        chosen.unwrap_or_else(|| {
            ignored.push(format!(
                "annotation {ANNOTATION}: {} is none of drop, reject, redirect; not heeded",
                brief(text)
            ));
            Action::Unset
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Object as _, Service};
    use super::*;
    use serde_json::{Value, json};

    fn service(annotations: &Value) -> (Action, usize) {
        let metadata = json!({"name": "n", "namespace": "shop", "uid": "u", "annotations": annotations});
        let mut ignored = Ignored::new();
        let json = json!({"metadata": metadata}).to_string();
        let service = Service::read(json.as_bytes(), &mut ignored).unwrap();
        (service.steering.action, ignored.len())
    }

    #[test]
    fn a_service_chooses_how_its_denials_are_carried_out() {
        for action in [Action::Drop, Action::Reject, Action::Redirect] {
            assert_eq!(
                service(&json!({"epguard.io/action": action.as_str()})),
                (action, 0)
            );
        }
        assert_eq!(service(&Value::Null), (Action::Unset, 0));
    }

    #[test]
    fn what_is_no_action_is_not_heeded_and_told() {
        for odd in ["Redirect", "unset", "", "redirect=eth0"] {
            assert_eq!(
                service(&json!({"epguard.io/action": odd})),
                (Action::Unset, 1),
                "{odd:?}"
            );
        }
    }
}

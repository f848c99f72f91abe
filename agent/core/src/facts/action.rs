//! The annotation `epguard.io/action`: how denials of a Service are carried out.

use super::brief::brief;
use super::{Ignored, Meta};
use epguard_common::{Action, OneOf};

/// On a Service: an action that its owner may choose.
const ANNOTATION: &str = "epguard.io/action";

impl Meta<'_> {
    /// The action that the Service asks for; unset without the annotation, or with another value.
    pub(super) fn action(&self, ignored: &mut Ignored) -> Action {
        let Some(text) = self.annotations.get(ANNOTATION) else {
            return Action::Unset;
        };
        let chosen = Action::named(text).filter(|action| action.choosers().service);
        chosen.unwrap_or_else(|| {
            let choices = Action::ALL.into_iter().filter(|action| action.choosers().service);
            ignored.push(format!(
                "annotation {ANNOTATION}: {} is not {}; ignored",
                brief(text),
                OneOf(choices)
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
        (service.on_denial.action, ignored.len())
    }

    #[test]
    fn a_service_chooses_how_its_denials_are_carried_out() {
        for action in [Action::Drop, Action::Reject, Action::Redirect] {
            assert_eq!(service(&json!({"epguard.io/action": action.as_str()})), (action, 0));
        }
        assert_eq!(service(&Value::Null), (Action::Unset, 0));
    }

    #[test]
    fn an_unknown_action_is_ignored_and_reported() {
        for odd in ["Redirect", "unset", "", "redirect=eth0"] {
            assert_eq!(service(&json!({"epguard.io/action": odd})), (Action::Unset, 1), "{odd:?}");
        }
    }
}

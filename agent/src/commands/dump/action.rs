//! The actions for denied packets, as a dump shows them.

use epguard_common::{Action, Reason, ReasonActions};

/// The action for packets of a denial, by the rules of the datapath: its own one, or that which the operator chose for
/// its reason.
pub(super) fn action(own: Action, reason: Reason, mut chosen: ReasonActions) -> &'static str {
    let chosen = chosen.of(reason).map_or(Action::Unset, |action| *action);
    own.or(chosen).or(Action::Drop).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_shows_the_action_of_its_service_or_of_the_operator_or_drop() {
        let chosen = ReasonActions {
            reused: Action::Reject,
            terminated: Action::Capture,
            ..ReasonActions::default()
        };
        for (reason, asked, shown) in [
            (Reason::Reused, Action::Redirect, "redirect"),
            (Reason::Reused, Action::Drop, "drop"),
            (Reason::Reused, Action::Unset, "reject"),
            (Reason::DeadBackend, Action::Unset, "drop"),
            (Reason::Terminated, Action::Unset, "capture"),
        ] {
            assert_eq!(action(asked, reason, chosen), shown, "{reason:?}, {asked:?}");
        }
    }
}

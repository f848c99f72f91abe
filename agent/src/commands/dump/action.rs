//! The actions for denied packets, as a dump shows them.

use epguard_common::{Action, Reason, ReasonActions, Terminated};

/// The action for packets of a denial, by the rules of the datapath: its own one, or that which the operator chose for
/// its reason.
pub(super) fn of_denial(own: Action, reason: Reason, mut chosen: ReasonActions) -> &'static str {
    let chosen = chosen.get_mut(reason).map_or(Action::Unset, |action| *action);
    name(own.or(chosen))
}

/// The action for packets to an orphan IP: that of its entry, or that which the operator chose for `terminated`.
pub(super) fn of_terminated(terminated: &Terminated, chosen: ReasonActions) -> &'static str {
    name(Action::from_raw(terminated.action).or(chosen.terminated))
}

fn name(action: Action) -> &'static str {
    action.or(Action::Drop).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_shows_the_action_of_its_service_or_of_the_operator_or_drop() {
        let chosen =
            ReasonActions { reused: Action::Reject, terminated: Action::Capture, ..ReasonActions::default() };
        for (reason, asked, shown) in [
            (Reason::Reused, Action::Redirect, "redirect"),
            (Reason::Reused, Action::Drop, "drop"),
            (Reason::Reused, Action::Unset, "reject"),
            (Reason::DeadBackend, Action::Unset, "drop"),
        ] {
            assert_eq!(of_denial(asked, reason, chosen), shown, "{reason:?}, {asked:?}");
        }
        assert_eq!(of_terminated(&Terminated::default(), chosen), "capture");
    }
}

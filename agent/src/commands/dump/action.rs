//! The actions for denied packets, as a dump shows them.

use epguard_common::{Action, Denial, ReasonActions, Terminated};

/// The actions that the operator chose for each reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen(pub(super) ReasonActions);

impl Chosen {
    /// The action for packets of a denial, by the rules of the datapath.
    pub(super) fn of_denial(mut self, denial: &Denial) -> &'static str {
        let chosen = self.0.of(denial.reason).map_or(Action::Unset, |action| *action);
        name(denial.action.or(chosen))
    }

    pub(super) fn of_terminated(self, terminated: &Terminated) -> &'static str {
        name(Action::from_raw(terminated.action).or(self.0.terminated))
    }
}

fn name(action: Action) -> &'static str {
    action.or(Action::Drop).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{Mode, Reason, Uid, UidState};

    fn denial(reason: Reason, action: Action) -> Denial {
        Denial {
            dead_uid: Uid::NONE,
            owner_uid: Uid::NONE,
            boot_id: Uid::NONE,
            reason,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            held: 0,
            action,
            reserved: 0,
            slot_since_ns: 0,
        }
    }

    #[test]
    fn a_denial_shows_the_action_of_its_service_or_of_the_operator_or_drop() {
        let chosen = Chosen(ReasonActions {
            reused: Action::Reject,
            terminated: Action::Capture,
            ..ReasonActions::default()
        });
        for (reason, asked, shown) in [
            (Reason::Reused, Action::Redirect, "redirect"),
            (Reason::Reused, Action::Drop, "drop"),
            (Reason::Reused, Action::Unset, "reject"),
            (Reason::DeadBackend, Action::Unset, "drop"),
        ] {
            assert_eq!(
                chosen.of_denial(&denial(reason, asked)),
                shown,
                "{reason:?}, {asked:?}"
            );
        }
        assert_eq!(chosen.of_terminated(&Terminated::default()), "capture");
    }
}

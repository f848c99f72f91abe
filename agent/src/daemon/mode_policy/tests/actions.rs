//! Actions and releases of the mode policy.

use super::*;
use crate::shared::status::ActionSource;
use epguard_core::facts::WantedActions;

/// A policy with these actions.
fn with_actions<const N: usize>(
    action: Option<Action>,
    canary_action: Option<Action>,
    reasons: [(Reason, Action); N],
) -> ModePolicy {
    ModePolicy {
        actions: WantedActions {
            action,
            canary_action,
            reasons: reasons.into(),
        },
        ..ModePolicy::default()
    }
}

/// CONFIG with the actions in force.
fn config_of(mode_policy: &NodeModePolicy) -> Config {
    Config {
        actions: mode_policy.actions().actions,
        ..earlier(mode_policy.in_force().mode, true)
    }
}

/// What the status shows of a reason.
fn shown(mode_policy: &NodeModePolicy, set: &Config, reason: Reason) -> (Action, ActionSource) {
    let shown = mode_policy.actions_in_force(set)[&reason];
    (shown.action, shown.source)
}

#[test]
fn an_action_is_that_of_flags_then_of_the_policy_then_of_the_command_and_its_source_is_shown() {
    use ActionSource::{Canary, Command, Flags, ModePolicy};
    let mut mode_policy = mode_policy(Mode::Enforce, None);
    let flags = config_of(&mode_policy);
    for reason in [Reason::Reused, Reason::Terminated] {
        assert_eq!(shown(&mode_policy, &flags, reason), (Action::Drop, Flags));
    }

    let canary = Some(Action::Drop);
    let policy = with_actions(
        Some(Action::Reject),
        canary,
        [(Reason::Reused, Action::Reject)],
    );
    mode_policy.apply(Change::Applied(policy));
    assert!(mode_policy.take_actions(false).is_some());
    let everywhere = config_of(&mode_policy);
    for reason in Reason::TO_DENY {
        let of_policy = (Action::Reject, ModePolicy);
        assert_eq!(shown(&mode_policy, &everywhere, reason), of_policy);
    }
    assert!(mode_policy.take_actions(true).is_some());
    let on_canary = config_of(&mode_policy);
    let canary_action = shown(&mode_policy, &on_canary, Reason::Terminated);
    assert_eq!(canary_action, (Action::Drop, Canary));
    let of_one_reason = shown(&mode_policy, &on_canary, Reason::Reused);
    assert_eq!(of_one_reason, (Action::Reject, ModePolicy));

    assert_eq!(mode_policy.problem(Some(&on_canary)), None);
    let by_hand = Config {
        actions: ReasonActions::all(Action::Drop),
        ..on_canary
    };
    let of_command = shown(&mode_policy, &by_hand, Reason::Reused);
    assert_eq!(of_command, (Action::Drop, Command));
    let problem = "an action was set by hand, until ConfigMap epguard/modes changes";
    assert_eq!(
        mode_policy.problem(Some(&by_hand)).as_deref(),
        Some(problem)
    );
}

#[test]
fn the_policys_modes_and_actions_change_apart_so_that_neither_undoes_what_was_set_by_hand() {
    let mut mode_policy = mode_policy(Mode::Observe, None);
    mode_policy.apply(Change::Applied(map(Some(Mode::Enforce), None, [])));
    assert!(mode_policy.take_change(false).is_some());
    assert_eq!(mode_policy.take_actions(false), None);
    let mut both = map(Some(Mode::Enforce), None, []);
    both.actions = with_actions(Some(Action::Reject), None, []).actions;
    mode_policy.apply(Change::Applied(both));
    assert_eq!(change(&mut mode_policy, false), None);
    assert!(mode_policy.take_actions(false).is_some());
    assert_eq!(mode_policy.take_actions(false), None, "once");
    mode_policy.apply(Change::Deleted(ModePolicy::default()));
    assert_eq!(mode_policy.take_actions(false), Some(flag_actions()));
}

#[test]
fn a_policy_with_an_error_or_that_is_refused_leaves_the_actions_and_releases_nothing() {
    let mut mode_policy = mode_policy(Mode::Enforce, None);
    let reject = with_actions(Some(Action::Reject), None, []);
    mode_policy.apply(Change::Applied(reject.clone()));
    assert!(mode_policy.take_actions(false).is_some());
    let mut broken = with_error(with_actions(Some(Action::Drop), None, []));
    broken.release = BreakerRelease::parse("12");
    mode_policy.apply(Change::Applied(broken));
    assert_eq!(mode_policy.take_actions(false), None);
    assert_eq!(mode_policy.take_release(), None);
    assert!(mode_policy.problem(None).is_some());
}

#[test]
fn a_new_agent_keeps_the_actions_that_an_earlier_one_took_from_the_policy_until_it_has_read_it() {
    let left = Config {
        actions: ReasonActions::all(Action::Reject),
        actions_from_config_map: 1,
        ..earlier(Mode::Enforce, true)
    };
    let by_hand = Config {
        actions_from_config_map: 0,
        ..left
    };
    let name = Some(ObjectName::new("epguard", "modes"));
    let mut mode_policy = new_policy(name.clone(), Mode::Enforce, &left);
    assert_eq!(mode_policy.take_actions(false), None, "not read yet");
    let kept = shown(&mode_policy, &left, Reason::Reused);
    assert_eq!(kept, (Action::Reject, ActionSource::Pinned));
    assert!(mode_policy.actions().are_of_policy());
    mode_policy.apply(Change::Reset(vec![]));
    assert_eq!(mode_policy.take_actions(false), Some(flag_actions()));

    for (name, pinned) in [(name, by_hand), (None, left)] {
        let mode_policy = new_policy(name, Mode::Enforce, &pinned);
        assert_eq!(mode_policy.actions(), flag_actions());
        assert!(!mode_policy.actions().are_of_policy());
    }
}

#[test]
fn a_release_is_carried_out_once_for_each_that_the_policy_has() {
    let mut mode_policy = mode_policy(Mode::Enforce, None);
    let of = |text: &str| ModePolicy {
        release: BreakerRelease::parse(text),
        ..ModePolicy::default()
    };
    let mut take = |policy: ModePolicy| {
        mode_policy.apply(Change::Applied(policy));
        let release = mode_policy.take_release();
        assert_eq!(mode_policy.take_release(), None, "once");
        release.map(|release| release.to_string())
    };
    assert_eq!(take(of("12 shop/web")).as_deref(), Some("12 shop/web"));
    assert_eq!(take(of("12 shop/web")), None, "another key has changed");
    assert_eq!(take(of("15 shop/web")).as_deref(), Some("15 shop/web"));
    assert_eq!(take(ModePolicy::default()), None);
}

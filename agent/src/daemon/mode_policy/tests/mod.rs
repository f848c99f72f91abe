mod actions;

use super::*;
use crate::kernel::maps::default_modes;
use epguard_common::{Action, Mode, ReasonActions, ReasonModes};
use epguard_core::facts::WantedModes;

fn map<const N: usize>(
    mode: Option<Mode>,
    canary_mode: Option<Mode>,
    reasons: [(Reason, Mode); N],
) -> ModePolicy {
    ModePolicy {
        modes: WantedModes {
            mode,
            canary_mode,
            reasons: reasons.into(),
        },
        ..ModePolicy::default()
    }
}

fn with_error(map: ModePolicy) -> ModePolicy {
    let errors = vec!["canary is no key".into()];
    ModePolicy { errors, ..map }
}

/// CONFIG of an earlier agent.
fn earlier(mode: Mode, from_config_map: bool) -> Config {
    Config {
        mode,
        configured: default_modes(),
        from_config_map: from_config_map.into(),
        ..Config::default()
    }
}

fn new_policy(name: Option<ObjectName>, mode: Mode, pinned: &Config) -> NodeModePolicy {
    let modes = Modes::of_flags(mode, default_modes());
    NodeModePolicy::new(name, modes, flag_actions(), pinned)
}

/// `--action=terminated=drop`.
fn flag_actions() -> Actions {
    Actions::of_flags(ReasonActions {
        terminated: Action::Drop,
        ..ReasonActions::default()
    })
}

/// After an earlier agent that took `pinned` from the `ConfigMap`.
fn mode_policy(mode: Mode, pinned: Option<Mode>) -> NodeModePolicy {
    let name = ObjectName::new("epguard", "modes");
    let pinned = pinned.map(|mode| earlier(mode, true)).unwrap_or_default();
    new_policy(Some(name), mode, &pinned)
}

fn change(mode_policy: &mut NodeModePolicy, canary: bool) -> Option<(Mode, &'static str)> {
    let modes = mode_policy.take_change(canary)?;
    Some((modes.mode, modes.source.as_str()))
}

#[test]
fn an_agent_keeps_what_an_earlier_one_took_from_the_mode_policy_until_it_has_read_it() {
    let earlier = "mode policy, read by an earlier agent";
    for (flags, pinned, expected, source) in [
        (Mode::Observe, Some(Mode::Enforce), Mode::Enforce, earlier),
        (Mode::Enforce, Some(Mode::Observe), Mode::Observe, earlier),
        (Mode::Enforce, None, Mode::Enforce, "flags"),
    ] {
        let mut mode_policy = mode_policy(flags, pinned);
        let modes = mode_policy.in_force();
        assert_eq!((modes.mode, modes.source.as_str()), (expected, source));
        assert_eq!(change(&mut mode_policy, true), None);
        let problem =
            format!("ConfigMap epguard/modes was not read yet; modes until then: {source}");
        assert_eq!(mode_policy.problem(None), Some(problem));
        mode_policy.apply(Change::Reset(vec![]));
        assert_eq!(change(&mut mode_policy, true).is_some(), pinned.is_some());
        assert_eq!(
            mode_policy.in_force().mode,
            flags,
            "there is no ConfigMap any more"
        );
    }
}

#[test]
fn a_mode_policy_that_is_refused_or_has_errors_at_the_start_leaves_the_lower_mode() {
    let lower = "the lower of flags and maps";
    let refused: fn(&mut NodeModePolicy) = |modes| {
        modes.refuse();
        assert_eq!(
            change(modes, false),
            None,
            "a server that has just started refuses, too"
        );
        modes.refuse();
    };
    let broken: fn(&mut NodeModePolicy) = |modes| {
        let map = with_error(map(Some(Mode::Enforce), None, []));
        modes.apply(Change::Reset(vec![map]));
    };
    for refuse in [refused, broken] {
        let mut raised = mode_policy(Mode::Observe, Some(Mode::Enforce));
        refuse(&mut raised);
        assert_eq!(change(&mut raised, false), Some((Mode::Observe, lower)));
        let mut lowered = mode_policy(Mode::Enforce, Some(Mode::Off));
        refuse(&mut lowered);
        assert_eq!(change(&mut lowered, false), Some((Mode::Off, lower)));
        let mut flags = mode_policy(Mode::Enforce, None);
        refuse(&mut flags);
        assert_eq!(
            change(&mut flags, false),
            None,
            "the next agent's flags count"
        );
    }
}

/// An earlier agent took `enforce` as a canary. The label went while none ran.
#[test]
fn a_node_that_is_no_canary_any_more_has_the_lower_mode_if_the_mode_policy_cannot_be_read() {
    for (is_refused, flags) in [
        (true, Mode::Observe),
        (false, Mode::Observe),
        (false, Mode::Enforce),
    ] {
        let mut mode_policy = mode_policy(flags, Some(Mode::Enforce));
        if is_refused {
            (0..2).for_each(|_| mode_policy.refuse());
        } else {
            let broken = with_error(map(Some(Mode::Observe), Some(Mode::Enforce), []));
            mode_policy.apply(Change::Reset(vec![broken]));
        }
        let modes = mode_policy.take_change(false).map(|modes| modes.mode);
        assert_eq!(modes, Some(Mode::Observe));
    }
}

#[test]
fn modes_that_were_set_by_hand_or_by_flags_count_only_as_far_as_the_new_flags_go() {
    for (flags, pinned) in [
        (Mode::Observe, Mode::Enforce),
        (Mode::Enforce, Mode::Observe),
    ] {
        let name = Some(ObjectName::new("epguard", "modes"));
        let mode_policy = new_policy(name, flags, &earlier(pinned, false));
        assert_eq!(mode_policy.in_force().mode, Mode::Observe);
    }
    let without = new_policy(None, Mode::Enforce, &earlier(Mode::Off, true));
    assert_eq!(
        (without.in_force().mode, without.problem(None)),
        (Mode::Enforce, None),
        "no ConfigMap is named"
    );
}

#[test]
fn a_mode_that_is_set_by_hand_is_named_until_it_is_the_mode_policys_again() {
    let mut mode_policy = mode_policy(Mode::Observe, None);
    mode_policy.apply(Change::Reset(vec![map(Some(Mode::Enforce), None, [])]));
    assert!(mode_policy.take_change(false).is_some());
    let as_wanted = earlier(Mode::Enforce, true);
    let lowered = ReasonModes {
        terminated: Mode::Off,
        ..default_modes()
    };
    for set in [
        earlier(Mode::Observe, false),
        Config {
            configured: lowered,
            ..as_wanted
        },
    ] {
        let problem = "a mode was set by hand, until ConfigMap epguard/modes changes";
        assert_eq!(mode_policy.problem(Some(&set)).as_deref(), Some(problem));
    }
    assert_eq!(mode_policy.problem(Some(&as_wanted)), None);
}

#[test]
fn a_mode_policy_with_an_error_can_only_lower_modes() {
    let mut mode_policy = mode_policy(Mode::Observe, None);
    mode_policy.apply(Change::Applied(map(Some(Mode::Enforce), None, [])));
    assert_eq!(
        change(&mut mode_policy, false),
        Some((Mode::Enforce, "mode policy"))
    );
    let reasons = [
        (Reason::Terminated, Mode::Off),
        (Reason::RetiredBackend, Mode::Enforce),
    ];
    mode_policy.apply(Change::Applied(with_error(map(None, None, reasons))));
    let modes = mode_policy.take_change(false).unwrap();
    let lowered = ReasonModes {
        terminated: Mode::Off,
        ..default_modes()
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, lowered));
    mode_policy.apply(Change::Applied(with_error(map(
        Some(Mode::Observe),
        None,
        [],
    ))));
    assert_eq!(
        change(&mut mode_policy, false),
        Some((Mode::Observe, "mode policy"))
    );
    mode_policy.apply(Change::Applied(with_error(map(
        Some(Mode::Enforce),
        None,
        [],
    ))));
    assert_eq!(
        change(&mut mode_policy, false),
        None,
        "it would raise the mode"
    );
    let problem =
        "ConfigMap epguard/modes: canary is no key; only its keys that lower a mode are applied";
    assert_eq!(mode_policy.problem(None).as_deref(), Some(problem));
    let mut lowered = self::mode_policy(Mode::Enforce, Some(Mode::Enforce));
    lowered.apply(Change::Reset(vec![with_error(map(
        Some(Mode::Observe),
        None,
        [],
    ))]));
    assert_eq!(
        change(&mut lowered, false),
        Some((Mode::Observe, "mode policy")),
        "of an earlier agent"
    );
}

#[test]
fn a_mode_policy_is_applied_once_until_it_changes_and_canaries_have_their_own_mode() {
    let mut mode_policy = mode_policy(Mode::Off, None);
    let both = map(Some(Mode::Observe), Some(Mode::Enforce), []);
    mode_policy.apply(Change::Applied(both));
    assert_eq!(
        change(&mut mode_policy, true),
        Some((Mode::Enforce, "mode policy, canary"))
    );
    assert_eq!(
        change(&mut mode_policy, false),
        Some((Mode::Observe, "mode policy"))
    );
    assert_eq!(
        (change(&mut mode_policy, false), mode_policy.problem(None)),
        (None, None),
        "once"
    );
    mode_policy.apply(Change::Applied(map(Some(Mode::Observe), None, [])));
    assert_eq!(change(&mut mode_policy, true), None, "the same for all");
    mode_policy.refuse();
    assert_eq!(
        (change(&mut mode_policy, false), mode_policy.problem(None)),
        (None, None),
        "a late refusal"
    );
    mode_policy.apply(Change::Applied(map(
        None,
        None,
        [(Reason::Terminated, Mode::Observe)],
    )));
    let modes = mode_policy.take_change(false).unwrap();
    let one_reason = ReasonModes {
        terminated: Mode::Observe,
        ..default_modes()
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Off, one_reason));
    mode_policy.apply(Change::Applied(map(Some(Mode::Enforce), None, [])));
    assert_eq!(
        change(&mut mode_policy, false),
        Some((Mode::Enforce, "mode policy"))
    );
    mode_policy.apply(Change::Deleted(ModePolicy::default()));
    assert_eq!(change(&mut mode_policy, false), Some((Mode::Off, "flags")));
}

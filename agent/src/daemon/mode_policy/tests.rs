use super::*;
use crate::kernel::maps::default_modes;
use epguard_core::facts::WantedModes;

const NONE: [(Reason, Mode); 0] = [];

fn map<const N: usize>(
    mode: Option<Mode>,
    canary_mode: Option<Mode>,
    reasons: [(Reason, Mode); N],
) -> facts::ModePolicy {
    let wanted = WantedModes {
        mode,
        canary_mode,
        reasons: reasons.into(),
    };
    facts::ModePolicy {
        wanted,
        errors: vec![],
    }
}

fn with_error(map: facts::ModePolicy) -> facts::ModePolicy {
    let errors = vec!["canary is no key".into()];
    facts::ModePolicy { errors, ..map }
}

fn node_modes(mode: Mode, before: Option<Mode>) -> NodeModes {
    let name = ("epguard".into(), "modes".into());
    NodeModes::new(
        Some(name),
        (mode, default_modes()),
        before.map(|mode| (mode, default_modes())),
    )
}

fn change(node_modes: &mut NodeModes, canary: bool) -> Option<(Mode, &'static str)> {
    let modes = node_modes.take_change(canary)?;
    Some((modes.mode, modes.source.as_str()))
}

#[test]
fn before_the_config_map_is_read_the_lower_of_flag_and_pinned_mode_applies() {
    let lower = "the lower of flags and maps";
    for (flags, before, expected) in [
        (Mode::Observe, Some(Mode::Enforce), Mode::Observe),
        (Mode::Enforce, Some(Mode::Observe), Mode::Observe),
        (Mode::Enforce, None, Mode::Enforce),
    ] {
        let mut node_modes = node_modes(flags, before);
        let modes = node_modes.in_force();
        assert_eq!((modes.mode, modes.source.as_str()), (expected, lower));
        assert_eq!(change(&mut node_modes, true), None);
        let problem = node_modes.problem().unwrap();
        assert!(
            problem.starts_with("ConfigMap epguard/modes was not read yet"),
            "{problem}"
        );
    }
    let off = ReasonModes {
        reused: Mode::Off,
        ..default_modes()
    };
    let name = Some(("epguard".into(), "modes".into()));
    let node_modes = NodeModes::new(name, (Mode::Enforce, default_modes()), Some((Mode::Enforce, off)));
    assert_eq!(node_modes.in_force().reasons, off);
}

#[test]
fn without_a_config_map_the_flags_alone_count() {
    let node_modes = NodeModes::new(
        None,
        (Mode::Enforce, default_modes()),
        Some((Mode::Off, default_modes())),
    );
    assert_eq!(
        (node_modes.in_force().mode, node_modes.problem()),
        (Mode::Enforce, None)
    );
}

#[test]
fn a_mode_policy_is_applied_once_and_its_deletion_restores_the_flags() {
    let mut node_modes = node_modes(Mode::Observe, None);
    node_modes.apply(Change::Reset(vec![map(Some(Mode::Enforce), None, NONE)]));
    assert_eq!(change(&mut node_modes, false), Some((Mode::Enforce, "configmap")));
    assert_eq!(
        (change(&mut node_modes, false), node_modes.problem()),
        (None, None)
    );
    node_modes.apply(Change::Deleted(facts::ModePolicy::default()));
    assert_eq!(change(&mut node_modes, false), Some((Mode::Observe, "flags")));
}

#[test]
fn a_config_map_with_an_error_can_only_lower_modes() {
    let mut node_modes = node_modes(Mode::Observe, None);
    node_modes.apply(Change::Applied(map(Some(Mode::Enforce), None, NONE)));
    assert_eq!(change(&mut node_modes, false), Some((Mode::Enforce, "configmap")));
    let reasons = [
        (Reason::Terminated, Mode::Off),
        (Reason::RetiredBackend, Mode::Enforce),
    ];
    node_modes.apply(Change::Applied(with_error(map(None, None, reasons))));
    let modes = node_modes.take_change(false).unwrap();
    let lowered = ReasonModes {
        terminated: Mode::Off,
        ..default_modes()
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, lowered));
    node_modes.apply(Change::Applied(with_error(map(Some(Mode::Observe), None, NONE))));
    assert_eq!(change(&mut node_modes, false), Some((Mode::Observe, "configmap")));
    node_modes.apply(Change::Applied(with_error(map(Some(Mode::Enforce), None, NONE))));
    assert_eq!(change(&mut node_modes, false), None, "it would raise the mode");
    let problem = "ConfigMap epguard/modes: canary is no key; only its keys that lower a mode are applied";
    assert_eq!(node_modes.problem().as_deref(), Some(problem));
}

#[test]
fn a_config_map_with_an_error_lowers_the_modes_of_an_earlier_agent() {
    let mut node_modes = node_modes(Mode::Enforce, Some(Mode::Enforce));
    node_modes.apply(Change::Reset(vec![with_error(map(None, None, NONE))]));
    assert_eq!(change(&mut node_modes, false), None);
    node_modes.apply(Change::Reset(vec![with_error(map(
        Some(Mode::Observe),
        None,
        NONE,
    ))]));
    assert_eq!(change(&mut node_modes, false), Some((Mode::Observe, "configmap")));
}

#[test]
fn canaries_can_raise_and_lower_their_mode_alone() {
    let mut node_modes = node_modes(Mode::Off, None);
    node_modes.apply(Change::Applied(map(
        Some(Mode::Observe),
        Some(Mode::Enforce),
        NONE,
    )));
    assert_eq!(
        change(&mut node_modes, true),
        Some((Mode::Enforce, "configmap, canary"))
    );
    assert_eq!(change(&mut node_modes, false), Some((Mode::Observe, "configmap")));
    node_modes.apply(Change::Applied(map(Some(Mode::Observe), None, NONE)));
    assert_eq!(change(&mut node_modes, true), None, "the same for all");
}

#[test]
fn a_mode_policy_sets_one_reason_and_the_others_keep_their_flags() {
    let mut node_modes = node_modes(Mode::Enforce, None);
    node_modes.apply(Change::Applied(map(
        None,
        None,
        [(Reason::Terminated, Mode::Observe)],
    )));
    let modes = node_modes.take_change(false).unwrap();
    let expected = ReasonModes {
        terminated: Mode::Observe,
        ..default_modes()
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, expected));
}

use super::*;
use crate::kernel::maps::DEFAULT;
use epguard_core::facts::Wish;

const NONE: [(Reason, Mode); 0] = [];

fn map<const N: usize>(
    mode: Option<Mode>,
    canary_mode: Option<Mode>,
    reasons: [(Reason, Mode); N],
) -> facts::Fleet {
    let wish = Wish {
        mode,
        canary_mode,
        reasons: reasons.into(),
    };
    facts::Fleet { wish, errors: vec![] }
}

fn with_error(map: facts::Fleet) -> facts::Fleet {
    let errors = vec!["canary is no key".into()];
    facts::Fleet { errors, ..map }
}

fn fleet(mode: Mode, before: Option<Mode>) -> Fleet {
    let name = ("epguard".into(), "modes".into());
    Fleet::new(Some(name), (mode, DEFAULT), before.map(|mode| (mode, DEFAULT)))
}

fn change(fleet: &mut Fleet, canary: bool) -> Option<(Mode, &'static str)> {
    let modes = fleet.take_change(canary)?;
    Some((modes.mode, modes.source.as_str()))
}

#[test]
fn until_the_map_was_read_the_lower_of_flags_and_pinned_modes_holds() {
    let lower = "the lower of flags and maps";
    for (flags, before, expected) in [
        (Mode::Observe, Some(Mode::Enforce), Mode::Observe),
        (Mode::Enforce, Some(Mode::Observe), Mode::Observe),
        (Mode::Enforce, None, Mode::Enforce),
    ] {
        let mut fleet = fleet(flags, before);
        let modes = fleet.in_force();
        assert_eq!((modes.mode, modes.source.as_str()), (expected, lower));
        assert_eq!(change(&mut fleet, true), None);
        let problem = fleet.problem().unwrap();
        assert!(
            problem.starts_with("ConfigMap epguard/modes was not read yet"),
            "{problem}"
        );
    }
    let off = ReasonModes {
        reused: Mode::Off,
        ..DEFAULT
    };
    let name = Some(("epguard".into(), "modes".into()));
    let fleet = Fleet::new(name, (Mode::Enforce, DEFAULT), Some((Mode::Enforce, off)));
    assert_eq!(fleet.in_force().reasons, off);
}

#[test]
fn without_a_config_map_the_flags_alone_count() {
    let fleet = Fleet::new(None, (Mode::Enforce, DEFAULT), Some((Mode::Off, DEFAULT)));
    assert_eq!((fleet.in_force().mode, fleet.problem()), (Mode::Enforce, None));
}

#[test]
fn what_the_fleet_wants_is_carried_out_once_and_the_flags_come_back_with_its_end() {
    let mut fleet = fleet(Mode::Observe, None);
    fleet.hear(Change::Reset(vec![map(Some(Mode::Enforce), None, NONE)]));
    assert_eq!(change(&mut fleet, false), Some((Mode::Enforce, "configmap")));
    assert_eq!((change(&mut fleet, false), fleet.problem()), (None, None));
    fleet.hear(Change::Deleted(facts::Fleet::default()));
    assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "flags")));
}

#[test]
fn of_a_map_with_an_error_only_what_lowers_a_mode_counts() {
    let mut fleet = fleet(Mode::Observe, None);
    fleet.hear(Change::Applied(map(Some(Mode::Enforce), None, NONE)));
    assert_eq!(change(&mut fleet, false), Some((Mode::Enforce, "configmap")));
    let reasons = [
        (Reason::Terminated, Mode::Off),
        (Reason::RetiredBackend, Mode::Enforce),
    ];
    fleet.hear(Change::Applied(with_error(map(None, None, reasons))));
    let modes = fleet.take_change(false).unwrap();
    let lowered = ReasonModes {
        terminated: Mode::Off,
        ..DEFAULT
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, lowered));
    fleet.hear(Change::Applied(with_error(map(Some(Mode::Observe), None, NONE))));
    assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "configmap")));
    fleet.hear(Change::Applied(with_error(map(Some(Mode::Enforce), None, NONE))));
    assert_eq!(change(&mut fleet, false), None, "it would raise the mode");
    let problem = "ConfigMap epguard/modes: canary is no key; only its keys that lower a mode count";
    assert_eq!(fleet.problem().as_deref(), Some(problem));
}

#[test]
fn a_map_with_an_error_that_is_read_first_lowers_what_an_earlier_agent_left() {
    let mut fleet = fleet(Mode::Enforce, Some(Mode::Enforce));
    fleet.hear(Change::Reset(vec![with_error(map(None, None, NONE))]));
    assert_eq!(change(&mut fleet, false), None);
    fleet.hear(Change::Reset(vec![with_error(map(
        Some(Mode::Observe),
        None,
        NONE,
    ))]));
    assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "configmap")));
}

#[test]
fn canaries_are_first_and_may_go_back_alone() {
    let mut fleet = fleet(Mode::Off, None);
    fleet.hear(Change::Applied(map(
        Some(Mode::Observe),
        Some(Mode::Enforce),
        NONE,
    )));
    assert_eq!(
        change(&mut fleet, true),
        Some((Mode::Enforce, "configmap, canary"))
    );
    assert_eq!(change(&mut fleet, false), Some((Mode::Observe, "configmap")));
    fleet.hear(Change::Applied(map(Some(Mode::Observe), None, NONE)));
    assert_eq!(change(&mut fleet, true), None, "the same for all");
}

#[test]
fn a_reason_has_the_mode_that_is_wished_for_and_the_others_keep_their_flags() {
    let mut fleet = fleet(Mode::Enforce, None);
    fleet.hear(Change::Applied(map(
        None,
        None,
        [(Reason::Terminated, Mode::Observe)],
    )));
    let modes = fleet.take_change(false).unwrap();
    let expected = ReasonModes {
        terminated: Mode::Observe,
        ..DEFAULT
    };
    assert_eq!((modes.mode, modes.reasons), (Mode::Enforce, expected));
}

use super::*;

const SENT: Duration = Duration::from_secs(100);

/// A list at version 20 that showed one object of many, which is of version 3.
fn answer() -> CheckAnswer {
    CheckAnswer {
        sent: SENT,
        version: 20,
        newest: 3,
        objects: None,
        probe_at: None,
    }
}

/// The same for a list that showed everything.
fn whole(newest: u64, objects: usize) -> CheckAnswer {
    CheckAnswer {
        newest,
        objects: Some(objects),
        ..answer()
    }
}

fn shown(version: u64, objects: usize) -> Shown {
    let objects = Some(objects);
    Shown { version, objects }
}

fn asked(answer: CheckAnswer) -> (FreshnessChecks, Instant) {
    let at = Instant::now();
    let mut checks = FreshnessChecks::default();
    let probe_at = Some(at + MARKER);
    checks.list_answered(CheckAnswer { probe_at, ..answer }, at);
    (checks, at)
}

fn proven(checks: &mut FreshnessChecks, shown: Shown) -> Option<Duration> {
    checks.take_proven(shown).map(|(_, sent)| sent)
}

#[test]
fn a_probe_that_shows_too_little_proves_only_older_answers() {
    let (mut checks, at) = asked(answer());
    let later = CheckAnswer {
        sent: SENT * 2,
        version: 30,
        ..answer()
    };
    checks.list_answered(later, at);
    assert_eq!(checks.decide(shown(12, 9), at + MARKER), CheckStep::Probe);
    let probe = Probe {
        first: None,
        last: 12,
        through: 29,
    };
    let error = checks.probe_ended(Ok(probe), at).unwrap_err();
    assert!(matches!(error, RequestError::NoBookmark(30)), "{error:?}");
    assert_eq!(proven(&mut checks, shown(12, 9)), Some(SENT));
    assert_eq!(proven(&mut checks, shown(12, 9)), None);
    assert_eq!(proven(&mut checks, shown(30, 9)), Some(SENT * 2));
}

#[test]
fn the_time_to_catch_up_with_a_probe_begins_with_its_first_event() {
    let (mut checks, at) = asked(answer());
    assert_eq!(checks.decide(shown(12, 9), at + MARKER), CheckStep::Probe);
    let (first, end) = (at + MARKER, at + MARKER + LATE);
    let probe = Probe {
        first: Some((13, first)),
        last: 15,
        through: 29,
    };
    checks.probe_ended(Ok(probe), end).unwrap();
    assert_eq!(
        checks.decide(shown(12, 9), end),
        CheckStep::Late,
        "it lacks the first"
    );
    let wait = CheckStep::Wait(Some(end + LATE));
    assert_eq!(checks.decide(shown(14, 9), end), wait, "it lacks the last");
}

#[test]
fn a_full_list_proves_the_stream_fresh_if_it_shows_the_same_objects() {
    let mut same = asked(whole(12, 9)).0;
    assert_eq!(same.complete_up_to(shown(12, 9)), 12);
    assert_eq!(proven(&mut same, shown(12, 9)), Some(SENT));
    assert_eq!(
        same.complete_up_to(shown(13, 8)),
        20,
        "up to the list's own version"
    );
    assert_eq!(
        proven(&mut asked(whole(12, 8)).0, shown(12, 9)),
        None,
        "a deletion"
    );
    assert_eq!(
        proven(&mut asked(whole(13, 9)).0, shown(12, 9)),
        None,
        "a change"
    );
    let unsure = Shown {
        version: 12,
        objects: None,
    };
    assert_eq!(proven(&mut asked(answer()).0, unsure), None, "two unknowns");
}

#[test]
fn a_stream_that_lacks_an_object_has_a_moment_to_catch_up_and_no_more_if_it_lacks_later_ones() {
    let (mut checks, at) = asked(whole(13, 9));
    assert_eq!(checks.decide(shown(12, 9), at + MARKER), CheckStep::Probe);
    assert_eq!(
        checks.decide(shown(12, 9), at + MARKER),
        CheckStep::Wait(Some(at + LATE))
    );
    assert_eq!(checks.decide(shown(12, 9), at + LATE), CheckStep::Late);
    assert_eq!(
        checks.decide(shown(12, 9), at + LATE),
        CheckStep::Wait(Some(at + CATCH_UP)),
        "once"
    );
    assert_eq!(
        checks.decide(shown(12, 9), at + CATCH_UP),
        CheckStep::Behind(13)
    );
    assert_eq!(
        checks.decide(shown(13, 9), at + CATCH_UP),
        CheckStep::Wait(None)
    );
    // Later objects give it no more time.
    let (mut checks, at) = asked(whole(13, 9));
    checks.list_answered(whole(14, 9), at + LATE / 2);
    assert!(checks.stream_lacks(shown(13, 9)));
    assert_eq!(checks.decide(shown(12, 9), at + LATE), CheckStep::Late);
    assert!(!checks.stream_lacks(shown(14, 9)));
}

#[test]
fn a_proof_that_is_not_urgent_waits_for_the_next_event_before_it_costs_a_probe() {
    let s = Duration::from_secs;
    assert_eq!(
        [s(0), s(3), s(6), s(270)].map(patience),
        [MARKER, MARKER, s(1), s(1)]
    );
    let (mut checks, at) = (FreshnessChecks::default(), Instant::now());
    let probe_at = Some(at + PATIENT_MARKER);
    checks.list_answered(
        CheckAnswer {
            probe_at,
            ..answer()
        },
        at,
    );
    let wait = CheckStep::Wait(Some(at + PATIENT_MARKER));
    assert_eq!(checks.decide(shown(12, 9), at + MARKER), wait);
    assert_eq!(
        checks.decide(shown(12, 9), at + PATIENT_MARKER),
        CheckStep::Probe
    );
}

#[test]
fn a_list_that_was_sent_later_leaves_one_of_a_later_version_unproven() {
    let (mut checks, at) = asked(CheckAnswer {
        version: 25,
        ..answer()
    });
    let later = CheckAnswer {
        sent: SENT * 2,
        ..answer()
    };
    checks.list_answered(later, at);
    assert_eq!(proven(&mut checks, shown(20, 9)), Some(SENT * 2));
    assert_eq!(checks.complete_up_to(shown(20, 9)), 20);
    assert_eq!(checks.decide(shown(20, 9), at + MARKER), CheckStep::Probe);
    assert_eq!(proven(&mut checks, shown(25, 9)), Some(SENT));
}

#[test]
fn more_answers_than_are_kept_leave_the_newest_to_be_proven() {
    let (mut checks, at) = asked(CheckAnswer {
        version: 99,
        ..answer()
    });
    for version in 20..20 + 9 {
        checks.list_answered(
            CheckAnswer {
                version,
                ..answer()
            },
            at,
        );
    }
    assert_eq!(proven(&mut checks, shown(98, 9)), Some(SENT));
    assert_eq!(checks.decide(shown(98, 9), at + MARKER), CheckStep::Probe);
}

#[test]
fn a_stream_that_shows_each_object_within_a_second_is_never_late() {
    let (step, at) = (LATE / 2, Instant::now());
    let mut checks = FreshnessChecks::default();
    for number in 0..20 {
        let now = at + step * number;
        let version = 100 + u64::from(number);
        checks.list_answered(whole(version, 9), now);
        let decision = checks.decide(shown(version - 1, 9), now);
        let is_late = matches!(decision, CheckStep::Late | CheckStep::Behind(_));
        assert!(!is_late, "{decision:?} at {version}");
    }
    let now = at + step * 20;
    assert_eq!(checks.decide(shown(118, 9), now + step), CheckStep::Late);
}

use super::*;
use crate::watch::backoff::{
    FIRST_WAIT, LONGEST_WAIT, LONGEST_WAIT_UNANSWERED, RELIST_AFTER_OUTAGE,
};

const LONG: Duration = Duration::from_mins(5);

fn following(version: u64) -> Protocol {
    let mut protocol = Protocol::default();
    protocol.begin();
    protocol.list_received(version, 1);
    protocol
}

#[test]
fn each_end_of_a_request_leads_to_the_next_one() {
    let begun = || {
        let mut protocol = Protocol::default();
        assert_eq!(protocol.begin(), Step::Stream);
        protocol
    };
    let mut advanced = following(7);
    advanced.advance(9);
    for (sentence, mut protocol, ends) in [
        (
            "a list that is never completed gives way to pages",
            begun(),
            &[(End::Closed, Step::Pages)][..],
        ),
        (
            "so does one that falls silent",
            begun(),
            &[(End::Silent, Step::Pages)],
        ),
        (
            "a closed stream resumes from the last version",
            advanced,
            &[(End::Closed, Step::Watch(9))],
        ),
        (
            "an error resumes, and expiry lists again",
            following(7),
            &[(End::Failed, Step::Watch(7)), (End::Expired, Step::Stream)],
        ),
        (
            "silence resumes once, and then lists again",
            following(7),
            &[(End::Silent, Step::Watch(7)), (End::Silent, Step::Stream)],
        ),
    ] {
        for (end, next) in ends {
            let wait = protocol.end(*end, LONG);
            assert!(
                *end != End::Closed || *next == Step::Pages || wait == Duration::ZERO,
                "{sentence}"
            );
            assert!(*end != End::Failed || wait == FIRST_WAIT, "{sentence}");
            assert_eq!(protocol.begin(), *next, "{sentence}");
        }
    }
}

#[test]
fn waits_double_up_to_the_ceiling_and_start_over_after_a_stable_stream() {
    // A server that closes at once is not retried in a loop, and a silent one more often than one
    // that refuses.
    for (end, longest) in [
        (End::Failed, LONGEST_WAIT),
        (End::Closed, LONGEST_WAIT),
        (End::Unanswered, LONGEST_WAIT_UNANSWERED),
    ] {
        let mut protocol = following(7);
        let mut fail = |lived, answered| {
            protocol.begin();
            if answered {
                protocol.advance(8);
            }
            protocol.end(end, lived)
        };
        let waits: Vec<Duration> = (0..40)
            .map(|_| fail(Duration::ZERO, end == End::Closed))
            .collect();
        assert_eq!(
            waits[..3],
            [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4],
            "{end:?}"
        );
        assert_eq!(waits.iter().max(), Some(&longest), "{end:?}");
        if end == End::Failed {
            assert_eq!(waits[39], LONGEST_WAIT);
            assert_eq!(fail(LONG, false), LONGEST_WAIT);
            assert_eq!(fail(LONG, true), FIRST_WAIT);
        }
    }
}

#[test]
fn a_list_after_an_outage_waits_no_longer_for_the_attempts_that_failed() {
    let mut protocol = following(7);
    for _ in 0..10 {
        protocol.begin();
        protocol.end(End::Failed, Duration::ZERO);
    }
    protocol.begin();
    assert_eq!(
        protocol.end(End::Expired, Duration::ZERO),
        RELIST_AFTER_OUTAGE
    );
}

#[test]
fn repeated_expiry_makes_requests_ever_rarer() {
    let mut protocol = following(7);
    let mut expire = |lived| {
        protocol.begin();
        protocol.list_received(8, 1);
        protocol.end(End::Listed, LONG);
        protocol.begin();
        protocol.advance(9);
        protocol.end(End::Expired, lived)
    };
    let waits = [(); 5].map(|()| expire(Duration::ZERO));
    assert_eq!(
        waits,
        [RELIST, RELIST * 2, RELIST * 4, LONGEST_WAIT, LONGEST_WAIT]
    );
    assert_eq!(expire(LONG), RELIST);
}

/// When each of 1000 agents lists everything again. They lost the server at 0; it returns after
/// `outage`, without its history.
fn relists(outage: Duration) -> Vec<Duration> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut relist = || {
        let (mut protocol, mut now) = (following(7), Duration::ZERO);
        let mut end = End::Closed;
        loop {
            now += protocol.end(end, Duration::ZERO).mul_f64(random.f64());
            end = match protocol.begin() {
                Step::Watch(_) if now < outage => End::Failed,
                Step::Watch(_) => End::Expired,
                _ => return now,
            };
        }
    };
    (0..1000).map(|_| relist()).collect()
}

/// When an agent of six watches lists, counted from the server's return after `outage`, without its
/// history.
fn lists_after(outage: Duration, random: &mut fastrand::Rng) -> Duration {
    let mut first_answer = || {
        let (mut protocol, mut now) = (following(7), Duration::ZERO);
        while now < outage {
            protocol.begin();
            now += protocol
                .end(End::Unanswered, Duration::ZERO)
                .mul_f64(random.f64());
        }
        (now, protocol.end(End::Expired, Duration::ZERO))
    };
    let answers: Vec<(Duration, Duration)> = (0..6).map(|_| first_answer()).collect();
    let (answer, ceiling) = answers.into_iter().min().unwrap();
    (answer + ceiling.mul_f64(random.f64())).saturating_sub(outage)
}

#[test]
fn after_an_outage_an_agent_lists_within_three_seconds_in_the_median_and_agents_are_spread() {
    let mut random = fastrand::Rng::with_seed(1);
    for outage in [2, 5, 15, 60, 300].map(Duration::from_secs) {
        let mut lists: Vec<Duration> = (0..1001)
            .map(|_| lists_after(outage, &mut random))
            .collect();
        // The median of five outages must not exceed 3 s by chance either.
        let fives = lists.chunks_exact(5);
        let is_quick = |at: &&Duration| **at < Duration::from_secs(3);
        let quick = fives
            .filter(|five| five.iter().filter(is_quick).count() >= 3)
            .count();
        assert!(
            outage != Duration::from_mins(1) || quick > 180,
            "{quick} of 200"
        );
        lists.sort();
        assert!(
            lists[500] < Duration::from_secs(3),
            "{:?} after {outage:?}",
            lists[500]
        );
        let second = Duration::from_secs(1);
        let within = |at: &Duration| {
            lists
                .iter()
                .filter(|other| (*at..*at + second).contains(*other))
                .count()
        };
        let busiest = lists.iter().map(within).max().unwrap();
        assert!(
            busiest < 450,
            "{busiest} of 1001 within a second, after {outage:?}"
        );
    }
}

#[test]
fn after_an_outage_a_thousand_agents_do_not_list_at_the_same_moment() {
    for outage in [0, 5, 60, 300].map(Duration::from_secs) {
        let relists = relists(outage);
        let within = |at: &Duration| {
            let close = |other: &&Duration| at.abs_diff(**other) <= Duration::from_millis(500);
            relists.iter().filter(close).count()
        };
        let busiest = relists.iter().map(within).max().unwrap();
        assert!(
            busiest < 300,
            "{busiest} of 1000 within a second, after {outage:?}"
        );
    }
}

#[test]
fn a_line_that_cannot_be_read_leaves_the_number_of_objects_unknown_until_the_next_list() {
    let mut protocol = following(7);
    protocol.count_object(Some(1));
    assert_eq!(protocol.shown.objects, Some(2));
    protocol.count_object(None);
    protocol.count_object(Some(-1));
    assert_eq!(protocol.shown.objects, None);
    protocol.list_received(9, 4);
    assert_eq!(protocol.shown.objects, Some(4));
}

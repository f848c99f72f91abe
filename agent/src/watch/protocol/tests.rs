use super::*;
use crate::watch::recovery::{FIRST_WAIT, LONGEST_WAIT, LONGEST_WAIT_UNANSWERED, RELIST_AFTER_OUTAGE};

const LONG: Duration = Duration::from_mins(5);

fn following(version: u64) -> Protocol {
    let mut protocol = Protocol::default();
    protocol.begin();
    protocol.listed(version, 1);
    protocol
}

#[test]
fn a_watch_begins_with_a_streamed_list() {
    assert_eq!(Protocol::default().begin(), Step::Stream);
}

#[test]
fn a_server_that_streams_no_lists_gets_requests_for_pages_from_then_on() {
    let mut protocol = Protocol::default();
    protocol.begin();
    assert_eq!(protocol.end(End::Unsupported, Duration::ZERO), Duration::ZERO);
    assert_eq!(protocol.begin(), Step::Pages);
    protocol.listed(7, 1);
    assert_eq!(protocol.end(End::Listed, Duration::ZERO), Duration::ZERO);
    assert_eq!(protocol.begin(), Step::Watch(7));
    protocol.end(End::Expired, LONG);
    assert_eq!(protocol.begin(), Step::Pages);
}

#[test]
fn a_streamed_list_that_is_never_completed_gives_way_to_pages() {
    for end in [End::Closed, End::Silent] {
        let mut protocol = Protocol::default();
        protocol.begin();
        protocol.end(end, LONG);
        assert_eq!(protocol.begin(), Step::Pages, "{end:?}");
    }
}

#[test]
fn a_closed_stream_resumes_at_once_from_the_last_version_seen() {
    let mut protocol = following(7);
    protocol.advance(9);
    assert_eq!(protocol.end(End::Closed, LONG), Duration::ZERO);
    assert_eq!(protocol.begin(), Step::Watch(9));
}

#[test]
fn a_server_that_closes_at_once_is_not_retried_in_a_loop() {
    let mut protocol = following(7);
    let waits = [(); 3].map(|()| {
        protocol.begin();
        protocol.advance(8);
        protocol.end(End::Closed, Duration::ZERO)
    });
    assert_eq!(waits, [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4]);
}

#[test]
fn an_error_resumes_and_expiry_lists_again() {
    let mut protocol = following(7);
    assert_eq!(protocol.end(End::Failed, LONG), FIRST_WAIT);
    assert_eq!(protocol.begin(), Step::Watch(7));
    protocol.end(End::Expired, LONG);
    assert_eq!(protocol.begin(), Step::Stream);
}

#[test]
fn silence_resumes_once_and_then_lists_again() {
    let mut protocol = following(7);
    protocol.end(End::Silent, LONG);
    assert_eq!(protocol.begin(), Step::Watch(7));
    protocol.end(End::Silent, LONG);
    assert_eq!(protocol.begin(), Step::Stream);
}

#[test]
fn waits_double_up_to_the_ceiling_and_start_over_after_a_stable_stream() {
    let mut protocol = following(7);
    let mut fail = |lived, answered| {
        protocol.begin();
        if answered {
            protocol.advance(8);
        }
        protocol.end(End::Failed, lived)
    };
    let waits: Vec<Duration> = (0..40).map(|_| fail(Duration::ZERO, false)).collect();
    assert_eq!(waits[..3], [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4]);
    assert_eq!(waits[39], LONGEST_WAIT);
    assert_eq!(fail(LONG, false), LONGEST_WAIT);
    assert_eq!(fail(LONG, true), FIRST_WAIT);
}

#[test]
fn a_list_after_an_outage_waits_no_longer_for_the_attempts_that_failed() {
    let mut protocol = following(7);
    for _ in 0..10 {
        protocol.begin();
        protocol.end(End::Failed, Duration::ZERO);
    }
    protocol.begin();
    assert_eq!(protocol.end(End::Expired, Duration::ZERO), RELIST_AFTER_OUTAGE);
}

#[test]
fn repeated_expiry_makes_requests_ever_rarer() {
    let mut protocol = following(7);
    let mut expire = |lived| {
        protocol.begin();
        protocol.listed(8, 1);
        protocol.end(End::Listed, LONG);
        protocol.begin();
        protocol.advance(9);
        protocol.end(End::Expired, lived)
    };
    let waits = [(); 5].map(|()| expire(Duration::ZERO));
    assert_eq!(waits, [RELIST, RELIST * 2, RELIST * 4, LONGEST_WAIT, LONGEST_WAIT]);
    assert_eq!(expire(LONG), RELIST);
}

/// When each of 1000 agents lists everything again. They lost the server at 0; it returns after `outage`, without its
/// history.
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

/// When an agent of six watches lists, counted from the server's return after `outage`, without its history.
fn lists_after(outage: Duration, random: &mut fastrand::Rng) -> Duration {
    let mut first_answer = || {
        let (mut protocol, mut now) = (following(7), Duration::ZERO);
        while now < outage {
            protocol.begin();
            now += protocol.end(End::Unanswered, Duration::ZERO).mul_f64(random.f64());
        }
        (now, protocol.end(End::Expired, Duration::ZERO))
    };
    let answers: Vec<(Duration, Duration)> = (0..6).map(|_| first_answer()).collect();
    let (answer, ceiling) = answers.into_iter().min().unwrap();
    (answer + ceiling.mul_f64(random.f64())).saturating_sub(outage)
}

#[test]
fn a_silent_server_is_retried_more_often_than_one_that_refuses() {
    let longest = |end| {
        let mut protocol = following(7);
        let waits = (0..40).map(|_| {
            protocol.begin();
            protocol.end(end, Duration::ZERO)
        });
        waits.max()
    };
    assert_eq!(longest(End::Unanswered), Some(LONGEST_WAIT_UNANSWERED));
    assert_eq!(longest(End::Failed), Some(LONGEST_WAIT));
}

/// The median of five outages must not exceed 3 s by chance either.
#[test]
fn the_median_of_five_outages_of_a_minute_is_within_three_seconds() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut passed = 0;
    for _ in 0..1000 {
        let mut lists = [(); 5].map(|()| lists_after(Duration::from_mins(1), &mut random));
        lists.sort();
        passed += u32::from(lists[2] < Duration::from_secs(3));
    }
    assert!(passed > 900, "{passed} of 1000");
}

#[test]
fn after_an_outage_an_agent_lists_within_three_seconds_in_the_median_and_agents_are_spread() {
    let mut random = fastrand::Rng::with_seed(1);
    for outage in [2, 5, 15, 60, 300].map(Duration::from_secs) {
        let mut lists: Vec<Duration> = (0..1001).map(|_| lists_after(outage, &mut random)).collect();
        lists.sort();
        assert!(lists[500] < Duration::from_secs(3), "{:?} after {outage:?}", lists[500]);
        let second = Duration::from_secs(1);
        let within =
            |at: &Duration| lists.iter().filter(|other| (*at..*at + second).contains(*other)).count();
        let busiest = lists.iter().map(within).max().unwrap();
        assert!(busiest < 450, "{busiest} of 1001 within a second, after {outage:?}");
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
        assert!(busiest < 300, "{busiest} of 1000 within a second, after {outage:?}");
    }
}

#[test]
fn a_line_that_cannot_be_read_leaves_the_number_of_objects_unknown_until_the_next_list() {
    let mut protocol = following(7);
    protocol.count(Some(1));
    assert_eq!(protocol.shown.objects, Some(2));
    protocol.count(None);
    protocol.count(Some(-1));
    assert_eq!(protocol.shown.objects, None);
    protocol.listed(9, 4);
    assert_eq!(protocol.shown.objects, Some(4));
}

use super::*;
use crate::shared::status::{
    ApiFigures, Attachment, Cause, Distribution, Evicted, Figures, Fill, Gap, PendingDenials, Translators,
    Watch,
};
use epguard_common::{Count, Mode, Outcome, Reason};
use epguard_core::facts::Watched;
use epguard_core::state::{IpState, PodState};

fn status() -> Status {
    let attachment = |attached| Attachment { attached, ..Attachment::default() };
    let watch = |up, age_ms| Watch { up, age_ms, restarts: 3, skipped: 1, ..Watch::default() };
    Status {
        synced: true,
        mode: Some(Mode::Enforce),
        watches: [(Watched::Nodes, watch(false, None)), (Watched::Pods, watch(true, Some(1_500)))].into(),
        lease_ms: 14_250,
        view_age_ms: Some(2_000),
        interfaces: vec![attachment(true), attachment(true), attachment(false)],
        translators: Translators {
            gaps: vec![Gap { cause: Cause::Ipvs, detail: String::new() }],
            ..Translators::default()
        },
        refused: 4,
        breaker: vec![PendingDenials { held: 3, ..PendingDenials::default() }],
        wrong_denies: [(Reason::Reused, 1)].into(),
        demoted: vec![Reason::Reused],
        figures: Figures {
            synced_after_ms: Some(820),
            pods: [(PodState::Dead, 1), (PodState::Live, 30)].into(),
            ips: [(IpState::Denied, 2), (IpState::Owned, 29)].into(),
            maps: [("DENIED".into(), Fill { entries: 2, capacity: 65_536 })].into(),
            evicted: Evicted { drops: 6, review: 0 },
            uncounted: 2,
            api: ApiFigures { requests: 42, throttled_us: 1_250_000 },
            propagation: Distribution {
                sum_us: 2_600_000,
                count: 3,
                buckets: vec![(1_000, 1), (500_000, 0), (1_000_000, 1)],
            },
            ..Figures::default()
        },
        ..Status::default()
    }
}

fn counters() -> Counters {
    let count = |packets| Count { packets, bytes: packets * 100, openings: packets / 2 };
    Counters::from([
        ((Reason::Reused, Outcome::Dropped), count(7)),
        ((Reason::Reused, Outcome::Observed), count(2)),
        ((Reason::Reused, Outcome::EventSuppressed), count(5)),
        ((Reason::Reused, Outcome::AnswerSuppressed), count(6)),
        ((Reason::Terminated, Outcome::AnswerFailed), count(1)),
        ((Reason::Nothing, Outcome::RedirectFailed), count(4)),
        ((Reason::DeadBackend, Outcome::EventLost), count(1)),
        ((Reason::Nothing, Outcome::EventLost), count(1)),
        ((Reason::Nothing, Outcome::NoIntent), count(9)),
        ((Reason::Nothing, Outcome::Draining), count(0)),
    ])
}

#[test]
fn the_whole_output_equals_the_golden_file() {
    let text = render(&status(), counters()).unwrap();
    assert_eq!(text, include_str!("expected.txt"));
}

#[test]
fn an_agent_that_has_just_started_leaves_out_unknown_values() {
    let text = render(&Status::default(), Counters::new()).unwrap();
    for absent in ["view_age", "sync_duration", "watch_up", "passed_packets"] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("epguard_synced 0\n"), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

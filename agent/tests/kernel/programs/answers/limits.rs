//! How many answers there are.

use super::*;
use std::time::Instant;

/// Answers to so many SYNs, all the others being dropped.
#[track_caller]
fn answered(rig: &mut Rig, pod: Addr, count: usize) -> usize {
    let request = syn(pod);
    let actions: Vec<i32> = (0..count).map(|_| rig.run(BOTH, &request).action).collect();
    let of = |wanted| actions.iter().filter(|action| **action == wanted).count();
    assert_eq!(of(ANSWERED) + of(DROP), count);
    of(ANSWERED)
}

fn limit(rig: &mut Rig, per_suspect: u32, per_node: u32) {
    rig.configure(Config {
        limits: AnswerLimits {
            per_suspect,
            per_node,
        },
        ..REJECTING
    });
}

/// Answers at this rate: those of a second at once, and those of the time since.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn at_most(per_second: u32, start: Instant) -> usize {
    let tokens = f64::from(per_second) * (1.0 + start.elapsed().as_secs_f64());
    tokens as usize
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn beyond_a_suspects_share_packets_are_dropped() {
    let mut rig = rejecting();
    limit(&mut rig, 20, 10_000);
    rig.forget_counters();
    let start = Instant::now();
    let first = answered(&mut rig, REUSED, 200);
    assert!((20..=at_most(20, start)).contains(&first), "{first}");
    let counters = rig.counters();
    let packets = |outcome| counters[&(Reason::Reused, outcome)].0;
    assert_eq!(packets(Outcome::Rejected), first as u64);
    assert_eq!(packets(Outcome::Dropped), 200 - first as u64);
    assert_eq!(packets(Outcome::AnswerSuppressed), 200 - first as u64);
    assert!(
        answered(&mut rig, REUSED_V6, 20) == 20,
        "another suspect has its own share"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn beyond_the_nodes_share_and_with_a_rate_of_0_packets_to_every_suspect_are_dropped() {
    let mut rig = rejecting();
    for (per_suspect, per_node) in [(0, 10), (10, 0), (0, 0)] {
        limit(&mut rig, per_suspect, per_node);
        assert_eq!(
            answered(&mut rig, REUSED, 5),
            0,
            "{per_suspect}, {per_node}"
        );
    }
    limit(&mut rig, 10_000, 20);
    let start = Instant::now();
    let both = answered(&mut rig, REUSED, 100) + answered(&mut rig, REUSED_V6, 100);
    assert!((20..=at_most(20, start)).contains(&both), "{both}");
}

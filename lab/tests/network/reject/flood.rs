//! A flood of SYNs to a denied Service: how many are answered, and the outcome of the others.

use std::time::{Duration, Instant};

use super::cluster::{count_entering, enforce, entered, rejected};
use super::figures::Denied;
use super::world::{Plan, World, on_both_families};
use epguard_common::{Action, AnswerLimits, Outcome};
use epguard_lab::traffic::{Client, Flood};
use epguard_lab::wait;

const PER_SECOND: u32 = 20_000;
/// Two seconds of the flood.
const SYNS: u32 = 40_000;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flood_gets_the_answers_that_are_allowed_and_the_rest_is_dropped_and_counted() {
    // First the limit of the suspect is the lower one, then that of the node.
    for (per_suspect, per_node) in [(1_000, 10_000), (10_000, 400)] {
        let limits = AnswerLimits {
            per_suspect,
            per_node,
        };
        on_both_families(Plan::default(), |mut world| {
            enforce(&mut world, Action::Reject, limits);
            check(&world, per_suspect.min(per_node));
        });
    }
}

/// Asserts the limit: a second's answers at once, and then this many a second, see
/// `epguard_common::Bucket`.
fn check(world: &World, per_second: u32) {
    count_entering(world, "shop/client", "tcp flags rst");
    count_entering(world, "bank/x", "tcp flags syn");
    let flood = Flood {
        to: world.address(Denied),
        per_second: PER_SECOND,
        count: SYNS,
    };
    let begun = Instant::now();
    let took = Client::new(world.netns("shop/client"))
        .flood(flood)
        .unwrap();
    let seen = settled(world);
    let most = f64::from(per_second) * (1.0 + begun.elapsed().as_secs_f64());
    println!(
        "{SYNS} SYNs to {} in {took:.2?}, {most:.0} answers allowed: {seen:?}",
        flood.to
    );
    assert_eq!(
        seen.rejected + seen.dropped,
        u64::from(SYNS),
        "every SYN was stopped"
    );
    assert_eq!(
        seen.dropped, seen.suppressed,
        "and counted if it was not answered"
    );
    assert_eq!(seen.arrived, 0, "none reached pod X");
    assert_eq!(seen.resets, seen.rejected, "each answer reached the client");
    let answers = u32::try_from(seen.rejected).unwrap();
    assert!(
        f64::from(answers) <= most,
        "{answers} answers, {most} allowed"
    );
    assert!(
        answers >= per_second,
        "{answers} answers, {per_second} may come at once"
    );
}

#[derive(Debug, PartialEq)]
struct Seen {
    rejected: u64,
    dropped: u64,
    suppressed: u64,
    /// RSTs, at the client.
    resets: u64,
    /// SYNs, at pod X.
    arrived: u64,
}

/// The counts, once they are complete.
fn settled(world: &World) -> Seen {
    let seen = wait::value(Duration::from_millis(1), || {
        let seen = Seen {
            rejected: rejected(world),
            dropped: world.hooks.packets(&[Outcome::Dropped])?,
            suppressed: world.hooks.packets(&[Outcome::AnswerSuppressed])?,
            resets: entered(world, "shop/client"),
            arrived: entered(world, "bank/x"),
        };
        let complete = seen.rejected + seen.dropped >= SYNS.into() && seen.resets >= seen.rejected;
        Ok(if complete {
            Ok(seen)
        } else {
            Err(format!("{seen:?}"))
        })
    });
    seen.unwrap()
}

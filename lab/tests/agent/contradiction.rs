//! The agent's loop: what ends a denial waits for no more than the messages that came before it,
//! whatever another namespace writes.

use super::real_loop::neighbour::{Neighbour, all};
use super::real_loop::{RealLoop, message, victim};

/// Writes that are in the channel before the lift.
const WRITES: usize = 20;

/// Turns of the loop until the lift is written: each applies one message at least, and there may be
/// one for the tick.
const TURNS: usize = WRITES + 2;

/// How often a lift comes in the middle of the writes.
const LIFTS: usize = 5;

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_fact_that_ends_a_denial_waits_for_no_judgement_whatever_another_namespace_writes() {
    for neighbour in all(true) {
        let turns = turns_until_lifted(&neighbour).await;
        assert!(
            turns.iter().all(|turns| *turns <= TURNS),
            "{}: {turns:?}",
            neighbour.name
        );
    }
}

async fn turns_until_lifted(neighbour: &Neighbour) -> Vec<usize> {
    let mut real_loop = RealLoop::synced().await;
    for fact in &neighbour.objects {
        real_loop.send(fact.clone());
        real_loop.settle().await;
    }
    victim::deny(&mut real_loop).await;
    let mut writes = neighbour.writes.iter().cycle();
    let mut all = Vec::new();
    for number in 10..10 + LIFTS {
        for fact in writes.by_ref().take(WRITES) {
            real_loop.send(fact.clone());
        }
        // The loop is in the middle of that.
        real_loop.turn().await;
        real_loop
            .watches
            .try_send(message(victim::lift(number)))
            .unwrap();
        let mut turns = 0;
        while real_loop.judges(&victim::vip()) {
            assert!(
                turns < 10_000,
                "{}: the denial does not end",
                neighbour.name
            );
            real_loop.turn().await;
            turns += 1;
        }
        all.push(turns);
        for fact in victim::deny_again(number) {
            real_loop.send(fact);
        }
        real_loop.settle().await;
        assert!(
            real_loop.judges(&victim::vip()),
            "{}: denied again",
            neighbour.name
        );
    }
    all
}

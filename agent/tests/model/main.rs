//! An independent, simple model of a cluster drives the agent's whole decision path on a virtual
//! clock.
//!
//! ```text
//! history -> world (cluster: who holds which IP; objects: what the API stores) -> server -> the agent's watches,
//! state, plan, lease -> maps -> checks, by the ground truth
//! ```
//!
//! The model shares no type and no rule with the agent; only `agent.rs` knows the agent's types.
//! `CASES` and `SEED` choose how many histories are played, and which. A wrong one is made small: a
//! row for `known.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics")]

mod agent;
mod checks;
mod cluster;
mod crowd;
mod debts;
mod history;
mod intent;
mod known;
mod kubelet;
mod objects;
mod restore;
mod run;
mod selector;
mod server;
mod store;
mod world;
mod writers;

use agent::*;
use checks::Suspicions;
use cluster::*;
use crowd::*;
use debts::*;
use epguard::daemon::run::inbox::Input;
use history::*;
use objects::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use selector::*;
use server::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use store::*;
use tokio::time::Instant;
use world::*;
use writers::*;

static PLAYED: AtomicU64 = AtomicU64::new(0);
/// A thread has found something: the others stop.
static FOUND: AtomicBool = AtomicBool::new(false);
/// In how many histories something was seen.
static SEEN: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

#[test]
fn no_history_ends_in_a_wrong_denial() {
    let cases = number("CASES", 6_000);
    let seed = number("SEED", 1);
    let threads = std::thread::available_parallelism()
        .map_or(1, |threads| threads.get() as u64)
        .min(cases);
    let began = std::time::Instant::now();
    let found = std::thread::scope(|scope| {
        let searches: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || search(seed * 1_000 + thread, cases / threads, cases))
            })
            .collect();
        searches
            .into_iter()
            .find_map(|search| search.join().expect("no search panics"))
    });
    eprintln!(
        "{} histories in {:.0} s",
        PLAYED.load(Relaxed),
        began.elapsed().as_secs_f64()
    );
    eprintln!("histories with: {:?}", SEEN.lock().unwrap());
    if let Some((why, history)) = found {
        panic!(
            "{why}\n{:?}\n{:#?}\nseed {seed}",
            history.setup, history.ops
        );
    }
}

#[test]
fn no_history_that_ended_in_a_wrong_denial_once_does_so_again() {
    // What a history does may depend on the moments at which lists are requested.
    let seeds = [1, 5];
    let mut failed = Vec::new();
    for known in known::histories() {
        for seed in seeds {
            let what_happens = known.what_happens;
            match run::play(&known.history, seed) {
                Err(why) => failed.push(format!("{what_happens}, seed {seed}: {why}")),
                Ok(seen) if !known.denials.iter().all(|reason| seen.contains(reason)) => {
                    failed.push(format!("{what_happens}, seed {seed}: denied only {seen:?}"));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Plays histories until one fails, and makes that one small.
fn search(seed: u64, cases: u64, all: u64) -> Option<(String, History)> {
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        max_shrink_iters: 4_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &octets);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let shrinking = Cell::new(false);
    let result = runner.run(&history::histories(), |history| {
        if FOUND.load(Relaxed) && !shrinking.get() {
            return Ok(());
        }
        if !shrinking.get() {
            let played = PLAYED.fetch_add(1, Relaxed) + 1;
            if played.is_multiple_of((all / 20).max(1)) {
                eprintln!("{played} of {all} histories");
            }
        }
        let shown = run::play(&history, seed).map_err(|why| {
            if !shrinking.replace(true) {
                FOUND.store(true, Relaxed);
                eprintln!("found after {} histories: {why}", PLAYED.load(Relaxed));
            }
            TestCaseError::fail(why)
        })?;
        let mut counts = SEEN.lock().unwrap();
        for what in shown {
            *counts.entry(what).or_default() += 1;
        }
        Ok(())
    });
    match result {
        Ok(()) => None,
        Err(TestError::Fail(why, history)) => Some((why.to_string(), history)),
        Err(error) => panic!("{error}"),
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

//! Frames of all kinds run through the loaded programs and through an oracle that shares no code
//! with them, on the same random tables. Both have to stop the same frames and to count the same. A
//! frame that passes keeps its octets and what other programs keep in it.
//!
//! `FRAMES=50000000 SEED=7` runs longer. A difference is printed with `SEED` and `BATCH`, from
//! which it comes again.

mod connection;
mod damage;
mod generate;
mod node;
mod nonlinear;
mod oracle;
mod tables;
mod trial;

use super::*;
use damage::least;
use fastrand::Rng;
use generate::Generator;
use node::*;
use oracle::*;
use std::collections::BTreeSet;
use std::str::FromStr;
use tables::*;
use trial::*;

/// Frames that run between two looks at the counters.
const BATCH: usize = 32;
/// Batches with the same tables.
const SAME_TABLES: u64 = 16;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn programs_and_oracle_agree_on_every_frame() {
    let total = number("FRAMES", 200_000);
    let seed = number("SEED", 1);
    let mut tables = Tables::empty();
    let mut trial = Trial::new();
    let mut counted = Counts::new();
    let batches = total.div_ceil(BATCH as u64);
    let first = number("BATCH", 0);
    for batch in first..first + batches {
        if batch == first || batch % SAME_TABLES == 0 {
            tables.remove(&mut trial.rig);
            tables = Tables::random(&mut draw(seed, batch / SAME_TABLES, 1));
            tables.install(&mut trial.rig);
        }
        let random = &mut draw(seed, batch, 2);
        tables.connect(random);
        let frames = Generator {
            random,
            tables: &tables,
        }
        .batch(BATCH);
        match trial.run(&tables, &frames) {
            Ok(counts) => trial::add(&mut counted, &counts),
            Err(difference) => {
                let report = trial.explain(&tables, &frames, &difference);
                panic!("{tables:#?}\nSEED={seed} BATCH={batch} FRAMES={BATCH}: {report}");
            }
        }
    }
    println!("{total} frames from SEED={seed}");
    for ((reason, outcome), count) in &counted {
        println!("{reason} {outcome}: {} packets", count.packets);
    }
    let outcomes: BTreeSet<_> = counted.keys().map(|(_, outcome)| *outcome).collect();
    assert!(
        outcomes.is_superset(&trial::REACHED.into()),
        "only {outcomes:?} occurred"
    );
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| u64::from_str(&text).expect(name))
}

/// Independent of the order in which batches run.
fn draw(seed: u64, number: u64, purpose: u64) -> Rng {
    let mut seeds = Rng::with_seed(seed);
    let mut of_seed = Rng::with_seed(seeds.u64(..) ^ number.rotate_left(8) ^ purpose);
    of_seed.fork()
}

//! Runs a parser on edited real inputs.
//!
//! A target fails if its check panics, or holds more memory than its input's size allows. proptest
//! then shrinks the edits. `PROPTEST_CASES=1000000` runs longer than the 5,000 cases of the suite.

pub mod memory;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Edited inputs per target.
const CASES: u32 = 5_000;

/// Inputs grow no further.
const LONGEST: usize = 64 << 10;

/// What a check may hold beside what belongs to the size of its input, octets; and for each octet
/// of it.
const FIXED: usize = 8 << 20;
const PER_OCTET: usize = 256;

/// Numbers at the edges of what parsers expect, and beyond; and what text formats nest by.
const EDGES: &str = "0 -1 65535 65536 4294967296 18446744073709551616 9223372036854775808 1e999 0.1 00000000000001 [ {\"a\":";

/// At a place, so many octets are replaced.
type Edit = (Index, usize, By);

/// What comes in their place.
#[derive(Debug, Clone)]
enum By {
    Octets(Vec<u8>),
    /// A word of the target, or of [`EDGES`].
    Word(Index),
    /// A part of another input, from there on, so long.
    Part(Index, Index, usize),
    /// Either of these, so often.
    Words(Index, usize),
}

/// The files of `agent/fuzz/corpus/TARGET`.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .collect()
}

/// The words of a dictionary, which spaces separate.
pub fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

/// Checks each seed, and edited seeds. `words` is the target's dictionary.
///
/// # Panics
///
/// A check fails, or there are no seeds.
pub fn run(target: &str, seeds: impl AsRef<[Vec<u8>]>, words: &[&str], check: impl Fn(&[u8])) {
    let seeds = seeds.as_ref();
    assert!(!seeds.is_empty(), "{target} has no corpus");
    let words: Vec<&str> = words
        .iter()
        .copied()
        .chain(self::words(EDGES))
        .chain(["- "])
        .collect();
    let edit = (any::<Index>(), 0_usize..64, any_by());
    let edits = vec(edit, 1..8);
    let input = |from: &Index, edits: &[Edit]| {
        let mut input = from.get(seeds).clone();
        for edit in edits {
            apply(edit, &mut input, seeds, &words);
        }
        input
    };
    let attempt = |input: &[u8]| {
        let held = memory::peak_of(|| check(input));
        let allowed = FIXED + PER_OCTET * input.len();
        (held <= allowed)
            .then_some(())
            .ok_or_else(|| TestCaseError::fail(format!("{held} octets held")))
    };
    let mut runner = TestRunner::new(config());
    for seed in seeds {
        attempt(seed).expect("a seed holds little memory");
    }
    let result = runner.run(&(any::<Index>(), edits), |(from, edits)| {
        attempt(&input(&from, &edits))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (from, edits))) => {
            panic!(
                "{target} fails on \"{}\": {why}",
                input(&from, &edits).escape_ascii()
            );
        }
        Err(error) => panic!("{target}: {error}"),
    }
}

/// The same inputs each time, or as many others as are asked for.
pub fn config() -> Config {
    let longer = env::var_os("PROPTEST_CASES").is_some();
    let asked = Config::default();
    Config {
        cases: if longer { asked.cases } else { CASES },
        rng_seed: if longer {
            asked.rng_seed
        } else {
            RngSeed::Fixed(1)
        },
        failure_persistence: None,
        ..asked
    }
}

fn any_by() -> impl Strategy<Value = By> {
    let at = any::<Index>;
    prop_oneof![
        4 => vec(any::<u8>(), 0..4).prop_map(By::Octets),
        4 => at().prop_map(By::Word),
        2 => (at(), at(), 1_usize..512).prop_map(|(other, from, length)| By::Part(other, from, length)),
        1 => (at(), 1_usize..2_000).prop_map(|(word, times)| By::Words(word, times)),
    ]
}

fn apply((at, length, by): &Edit, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = at.index(input.len() + 1);
    let to = (at + length).min(input.len());
    let new = match by {
        By::Octets(octets) => octets.clone(),
        By::Word(word) => word.get(words).as_bytes().to_vec(),
        By::Part(other, from, length) => {
            let other = other.get(seeds);
            let from = from.index(other.len() + 1);
            other[from..(from + length).min(other.len())].to_vec()
        }
        By::Words(word, times) => word.get(words).repeat(*times).into_bytes(),
    };
    input.splice(at..to, new);
    input.truncate(LONGEST);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// What a failing target says.
    fn failure(check: fn(&[u8])) -> String {
        let said =
            catch_unwind(|| run("self-test", [b"seed".to_vec()], &["magic"], check)).unwrap_err();
        *said.downcast::<String>().unwrap()
    }

    #[test]
    fn a_panic_is_found_and_shrunk() {
        let said = failure(|input| assert!(!input.windows(5).any(|window| window == b"magic")));
        assert!(said.contains("magic") && said.len() < 300, "{said}");
    }

    #[test]
    fn too_much_memory_is_found() {
        let said = failure(|input| {
            if input.len() > 4 {
                drop(std::hint::black_box(vec![1_u8; 2 * FIXED]));
            }
        });
        assert!(said.contains("octets held"), "{said}");
    }
}

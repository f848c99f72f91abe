//! Runs a parser on mutated real inputs.
//!
//! A target fails if its check panics, holds more memory than its input's size allows, or takes a minute for one input.
//! proptest then shrinks the mutations, and the input is written to `agent/fuzz/regressions/TARGET`, from where each later run
//! tries it first. `CASES=1000000` runs longer than the 5,000 cases of the suite, `SECONDS=3600` goes on until then, `SEED=7`
//! takes other ones.

mod memory;
mod mutation;

use mutation::Mutation;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Mutated inputs per target.
const CASES: u32 = 5_000;

/// What one input may take: it hangs otherwise.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a check may hold beside what belongs to the size of its input, octets.
const FIXED: usize = 8 << 20;

/// What a check may hold for each octet of its input.
const PER_OCTET: usize = 256;

/// The files of `agent/fuzz/corpus/TARGET`.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    files(&folder("corpus").join(target))
}

/// Checks each seed, each regression, and mutated seeds. `words` is the target's dictionary.
pub fn run(
    target: &str,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
    check: impl Fn(&[u8]) + Send + 'static,
) {
    assert!(!seeds.is_empty(), "{target} has no corpus");
    let regressions = folder("regressions").join(target);
    let whole: Vec<Vec<u8>> = files(&regressions).into_iter().chain(seeds.clone()).collect();
    let end = number("SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (beat, beats) = mpsc::channel();
    let worker = thread::spawn(move || {
        for input in whole {
            attempt(&beat, &input, &check).map_err(|error| (input.clone(), error.to_string()))?;
        }
        let mut random = random();
        let mut inputs = 0;
        loop {
            inputs += mutate(&seeds, words, &mut random, &beat, &check)?;
            if end.is_none_or(|end| Instant::now() >= end) {
                return Ok(inputs);
            }
        }
    });
    let mut last = Vec::new();
    loop {
        match beats.recv_timeout(PATIENCE) {
            Ok(input) => last = input,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{target} hangs on {}", keep(&regressions, &last).display());
            }
        }
    }
    match worker.join() {
        Ok(Ok(inputs)) => eprintln!("{target}: {inputs} inputs"),
        Ok(Err((input, why))) => panic!(
            "{target} fails on {}: {why}",
            keep(&regressions, &input).display()
        ),
        // A seed or a regression, which proptest does not watch.
        Err(panic) => {
            eprintln!("{target} panics on {}", keep(&regressions, &last).display());
            std::panic::resume_unwind(panic);
        }
    }
}

/// The shrunk input that fails, and why.
type Failure = (Vec<u8>, String);

fn random() -> TestRng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("SEED").unwrap_or(1).to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
}

/// Checks one round of mutated seeds. Returns how many.
fn mutate(
    seeds: &[Vec<u8>],
    words: &'static [&'static str],
    random: &mut TestRng,
    beat: &Sender<Vec<u8>>,
    check: &impl Fn(&[u8]),
) -> Result<u64, Failure> {
    let cases = number("CASES")
        .and_then(|cases| cases.try_into().ok())
        .unwrap_or(CASES);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut round = [0; 32];
    random.fill_bytes(&mut round);
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &round));
    let strategy = (any::<Index>(), vec(any::<Mutation>(), 1..8));
    let input = |from: &Index, mutations: &[Mutation]| {
        let mut input = from.get(seeds).clone();
        for mutation in mutations {
            mutation.apply(&mut input, seeds, words);
        }
        input
    };
    let result = runner.run(&strategy, |(from, mutations)| {
        attempt(beat, &input(&from, &mutations), check)
    });
    match result {
        Ok(()) => Ok(u64::from(cases)),
        Err(TestError::Fail(why, (from, mutations))) => Err((input(&from, &mutations), why.to_string())),
        Err(TestError::Abort(why)) => Err((Vec::new(), why.to_string())),
    }
}

fn attempt(beat: &Sender<Vec<u8>>, input: &[u8], check: &impl Fn(&[u8])) -> Result<(), TestCaseError> {
    let _ = beat.send(input.to_vec());
    let allowed = FIXED + PER_OCTET * input.len();
    let held = memory::peak_of(|| check(input));
    if held > allowed {
        return Err(TestCaseError::fail(format!(
            "{held} octets held for {} of input",
            input.len()
        )));
    }
    Ok(())
}

fn keep(regressions: &Path, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let path = regressions.join(format!("{:016x}", hasher.finish()));
    let _ = fs::create_dir_all(regressions).and_then(|()| fs::write(&path, input));
    path
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../agent/fuzz")
        .join(name)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// What a failing target says, and the input that it kept.
    fn failure(target: &'static str, check: fn(&[u8])) -> (String, Vec<u8>) {
        let said = catch_unwind(|| run(target, vec![b"seed".to_vec()], &["magic"], check)).unwrap_err();
        let said = *said.downcast::<String>().unwrap();
        let folder = folder("regressions").join(target);
        let kept = files(&folder).remove(0);
        fs::remove_dir_all(folder).unwrap();
        (said, kept)
    }

    #[test]
    fn a_panic_is_found_shrunk_and_kept() {
        let has_word = |input: &[u8]| input.windows(5).any(|window| window == b"magic");
        let (said, kept) = failure("self-test-panic", |input| {
            assert!(!input.windows(5).any(|window| window == b"magic"));
        });
        assert!(said.contains("self-test-panic fails on"), "{said}");
        assert!(has_word(&kept) && kept.len() <= 9, "{kept:?}");
    }

    #[test]
    fn too_much_memory_is_found() {
        let (said, _) = failure("self-test-memory", |input| {
            if input.len() > 4 {
                drop(std::hint::black_box(vec![1_u8; 2 * FIXED]));
            }
        });
        assert!(said.contains("octets held"), "{said}");
    }
}

//! The outcome of a mutation, read from the output of `cargo test`.

use strum::Display;

/// The result of a test with its mutation. Only [`Outcome::Caught`] is good.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The named test failed.
    #[strum(to_string = "caught")]
    Caught,
    /// The named test passed.
    #[strum(to_string = "SURVIVED")]
    Survived,
    /// The named test fails without the mutation, too.
    #[strum(to_string = "FAILS WITHOUT IT, TOO")]
    FailsWithout,
    /// The patch does not fit HEAD.
    #[strum(to_string = "DOES NOT APPLY")]
    DoesNotApply,
    /// The mutated sources do not build, so the test has no result.
    #[strum(to_string = "DOES NOT BUILD")]
    DoesNotBuild,
    /// There is no such test.
    #[strum(to_string = "NO SUCH TEST")]
    NoSuchTest,
    /// The test did not end in time and was killed.
    #[strum(to_string = "DID NOT END")]
    Hung,
    /// The test's process ended without a result.
    #[strum(to_string = "ENDED WITHOUT A RESULT")]
    NoResult,
    /// Something around the test failed.
    #[strum(to_string = "ERROR: {0}")]
    Error(String),
}

/// Reads the outcome for the test `name` from the output of `cargo test`, both streams.
///
/// The result is taken from libtest's summary: output of child processes may cut the line of the test itself.
pub(crate) fn read(name: &str, output: &str) -> Outcome {
    let listed = output
        .rsplit_once("\nfailures:\n")
        .is_some_and(|(_, list)| list.lines().any(|line| line.trim() == name));
    let summary = |words: &str| output.lines().any(|line| line.starts_with(words));
    if summary("test result: FAILED.") && listed {
        Outcome::Caught
    } else if summary("test result: ok. 1 passed") {
        Outcome::Survived
    } else if output.contains("error: could not compile") {
        Outcome::DoesNotBuild
    } else if summary("test result: ok. 0 passed") || output.contains("error: no test target named") {
        Outcome::NoSuchTest
    } else {
        Outcome::NoResult
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_failure_of_the_named_test_counts() {
        let failed = "running 1 test\ntest a::b ... garbage\nFAILED\n\nfailures:\n\n---- a::b stdout ----\nboom\n\n\
                      failures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(read("a::b", failed), Outcome::Caught);
        assert_eq!(read("b", failed), Outcome::NoResult, "another test failed");
    }

    #[test]
    fn a_test_that_passes_is_missing_or_does_not_build_has_its_own_outcome() {
        let passed = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        assert_eq!(read("a", passed), Outcome::Survived);
        let none = "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 9 filtered out\n";
        assert_eq!(read("a", none), Outcome::NoSuchTest);
        let broken = "error[E0425]: cannot find value\nerror: could not compile `epguard` (lib)\n";
        assert_eq!(read("a", broken), Outcome::DoesNotBuild);
        assert_eq!(read("a", "signal: 6, SIGABRT\n"), Outcome::NoResult);
    }
}

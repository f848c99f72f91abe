//! The copy of HEAD that mutations change.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;

use super::patch::Patch;
use crate::process::{cargo, command, read, root, run};
use crate::watchdog::Watchdog;

/// For a build and a test. The first build compiles every dependency.
const LIMIT: Duration = Duration::from_mins(30);

/// What the test of a patch says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The test has failed, as it should.
    Caught,
    /// The test has passed: nothing notices that the fix is lost.
    Survived,
    DoesNotApply,
    DoesNotBuild,
    DidNotEnd,
    /// The test has not run.
    NoResult,
}

impl Outcome {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Survived => "SURVIVED",
            Self::DoesNotApply => "DOES NOT APPLY",
            Self::DoesNotBuild => "DOES NOT BUILD",
            Self::DidNotEnd => "DID NOT END",
            Self::NoResult => "NO RESULT",
        }
    }
}

/// The copy of HEAD: a git worktree at `target/mutate`, with build artifacts of its own that stay
/// from one mutation to the next.
pub(super) struct Tree {
    pub(super) folder: PathBuf,
}

impl Tree {
    pub(super) fn of_head() -> Result<Self> {
        let folder = root().join("target/mutate");
        let head = read(command("git").args(["rev-parse", "HEAD"]))?;
        let tree = Self { folder };
        if tree.folder.join(".git").exists() {
            // Unchanged files keep their times, so that cargo builds only the changes of a
            // mutation.
            run(tree
                .git()
                .args(["checkout", "--quiet", "--force", "--detach", head.trim()]))?;
        } else {
            // A folder that a user removed is still registered.
            run(command("git").args(["worktree", "prune"]))?;
            let mut add = command("git");
            add.args(["worktree", "add", "--quiet", "--detach"])
                .arg(&tree.folder)
                .arg(head.trim());
            run(&mut add)?;
        }
        Ok(tree)
    }

    /// Takes all changes back.
    pub(super) fn reset(&self) -> Result<()> {
        run(self.git().args(["reset", "--quiet", "--hard"]))?;
        run(self.git().args(["clean", "--quiet", "--force", "-d"]))
    }

    /// Applies one patch, and runs its test.
    pub(super) fn outcome(&self, patch: &Patch) -> Result<Outcome> {
        self.reset()?;
        let applied = self.git().arg("apply").arg(&patch.file).status()?;
        if !applied.success() {
            return Ok(Outcome::DoesNotApply);
        }
        if patch.needs_root() && !self.build()? {
            return Ok(Outcome::DoesNotBuild);
        }
        let mut test = self.here(cargo());
        test.arg("test").args(&patch.test).process_group(0);
        let child = test
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let watchdog = Watchdog::new(child.id(), LIMIT);
        let output = child.wait_with_output()?;
        if watchdog.has_killed() {
            return Ok(Outcome::DidNotEnd);
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let printed = format!("{stdout}\n{stderr}");
        let outcome = read_outcome(patch.test_name(), &printed);
        if outcome == Outcome::NoResult {
            eprintln!("{printed}");
        }
        Ok(outcome)
    }

    /// Builds the object and the binaries that root tests load and start. Returns false if they do
    /// not build.
    fn build(&self) -> Result<bool> {
        let mut build = cargo();
        build.args(["xtask", "build"]).stdout(Stdio::null());
        Ok(self.here(build).status()?.success())
    }

    fn git(&self) -> Command {
        self.here(command("git"))
    }

    fn here(&self, mut command: Command) -> Command {
        command
            .current_dir(&self.folder)
            .env_remove("CARGO_TARGET_DIR");
        command
    }
}

/// The outcome for a test from libtest's summary: output of child processes may cut the line of the
/// test itself.
fn read_outcome(test: &str, output: &str) -> Outcome {
    let has_line = |start: &str| output.lines().any(|line| line.starts_with(start));
    if has_line("test result: FAILED.") && names_of_failures(output).any(|name| name == test) {
        return Outcome::Caught;
    }
    if has_line("test result: ok. 1 passed") {
        return Outcome::Survived;
    }
    Outcome::NoResult
}

/// The lines of libtest's last list of failures.
fn names_of_failures(output: &str) -> impl Iterator<Item = &str> {
    let list = match output.rsplit_once("\nfailures:\n") {
        Some((_, list)) => list,
        None => "",
    };
    list.lines().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_failure_of_the_named_test_counts() {
        let failed = "running 1 test\ntest a::b ... garbage\nFAILED\n\nfailures:\n\n---- a::b stdout ----\nboom\n\n\
                      failures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        let passed = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        assert_eq!(read_outcome("a::b", failed), Outcome::Caught);
        assert_eq!(
            read_outcome("b", failed),
            Outcome::NoResult,
            "another test failed"
        );
        assert_eq!(read_outcome("a", passed), Outcome::Survived);
        assert_eq!(
            read_outcome(
                "a",
                "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n"
            ),
            Outcome::NoResult
        );
        assert_eq!(
            read_outcome("a", "error: could not compile `epguard` (lib)\n"),
            Outcome::NoResult
        );
    }
}

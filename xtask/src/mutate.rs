//! `cargo xtask mutate`: reverts one fix at a time in a copy of the sources and expects its test to
//! fail.
//!
//! Each `xtask/mutations/*.patch` is one mutation: two comments, then a diff. A mutation that no
//! test notices means that the fix can be lost unseen.
//!
//! ```text
//! # row: list from the past
//! # test: cargo test -p epguard --test rootless -- --exact state::gaps::a_list_from_the_past_starts_over
//! --- a/agent/src/...
//! ```

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::files::{self, list};
use crate::process::{cargo, command, exit, is_root, read, root, run as run_command};
use crate::watchdog::Watchdog;

/// For a build and a test. The first build compiles every dependency.
const LIMIT: Duration = Duration::from_mins(30);

/// Which mutations to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Mutations by the names of their files, or the beginning of a name; all if none is given
    names: Vec<String>,
}

/// One fix, reverted.
struct Mutation {
    /// The diff's file.
    file: PathBuf,
    /// What the fix is for, in one sentence.
    row: String,
    /// The command of the one test that has to fail.
    test: Vec<String>,
}

/// Runs the mutations on a copy of HEAD, prints a row for each, and fails unless every test failed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut mutations = all()?;
    let is_named = |mutation: &Mutation| {
        args.names
            .iter()
            .any(|name| mutation.name().starts_with(name))
    };
    mutations.retain(|mutation| args.names.is_empty() || is_named(mutation));
    if let Some(name) = args
        .names
        .iter()
        .find(|name| !mutations.iter().any(|one| one.name().starts_with(*name)))
    {
        bail!("no mutation {name}*.patch in xtask/mutations");
    }
    if !is_root() && mutations.iter().any(Mutation::needs_root) {
        bail!(
            "tests among them make namespaces and load BPF programs: run as root, or name other mutations"
        );
    }
    let tree = Tree::of_head()?;
    let mut caught = 0;
    for (number, mutation) in (1..).zip(&mutations) {
        eprintln!("[{number}/{}] {}", mutations.len(), mutation.name());
        let outcome = tree
            .outcome(mutation)
            .unwrap_or_else(|error| format!("ERROR: {error:#}"));
        println!(
            "| {} | `{}` | {outcome} |",
            mutation.row,
            mutation.test_name()
        );
        caught += usize::from(outcome == "caught");
    }
    tree.reset()?;
    println!("{caught} passed, {} failed", mutations.len() - caught);
    Ok(exit(caught == mutations.len()))
}

/// Every mutation of the repository, by name.
fn all() -> Result<Vec<Mutation>> {
    let mut files = list(&root().join("xtask/mutations"))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "patch"));
    files.iter().map(|file| Mutation::read(file)).collect()
}

impl Mutation {
    fn read(file: &Path) -> Result<Self> {
        let patch = files::read(file)?.text;
        let header = |key: &str| {
            let line = patch.lines().find_map(|line| line.strip_prefix(key));
            line.with_context(|| format!("{}: no line `{key}...`", file.display()))
        };
        let test: Vec<String> = header("# test: cargo test ")?
            .split_whitespace()
            .map(Into::into)
            .collect();
        if test
            .iter()
            .rev()
            .nth(1)
            .is_none_or(|word| word != "--exact")
        {
            bail!(
                "{}: `# test:` has to end with `--exact NAME`",
                file.display()
            );
        }
        Ok(Self {
            file: file.into(),
            row: header("# row: ")?.into(),
            test,
        })
    }

    fn name(&self) -> String {
        self.file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// The name of the test, as libtest prints it.
    fn test_name(&self) -> &str {
        self.test.last().map_or("", String::as_str)
    }

    fn needs_root(&self) -> bool {
        self.test.iter().any(|word| word == "--ignored")
    }
}

/// The copy of HEAD: a git worktree at `target/mutate`, with build artifacts of its own that stay
/// from one mutation to the next.
struct Tree {
    folder: PathBuf,
}

impl Tree {
    fn of_head() -> Result<Self> {
        let folder = root().join("target/mutate");
        let head = read(command("git").args(["rev-parse", "HEAD"]))?;
        let tree = Self { folder };
        if tree.folder.join(".git").exists() {
            // Unchanged files keep their times, so that cargo builds only the changes of a
            // mutation.
            run_command(tree.git().args([
                "checkout",
                "--quiet",
                "--force",
                "--detach",
                head.trim(),
            ]))?;
        } else {
            // A folder that a user removed is still registered.
            run_command(command("git").args(["worktree", "prune"]))?;
            let mut add = command("git");
            add.args(["worktree", "add", "--quiet", "--detach"])
                .arg(&tree.folder)
                .arg(head.trim());
            run_command(&mut add)?;
        }
        Ok(tree)
    }

    fn reset(&self) -> Result<()> {
        run_command(self.git().args(["reset", "--quiet", "--hard"]))?;
        run_command(self.git().args(["clean", "--quiet", "--force", "-d"]))
    }

    /// `caught` if the named test fails with this mutation alone.
    fn outcome(&self, mutation: &Mutation) -> Result<String> {
        self.reset()?;
        if !self
            .git()
            .arg("apply")
            .arg(&mutation.file)
            .status()?
            .success()
        {
            return Ok("DOES NOT APPLY".into());
        }
        if mutation.needs_root() && !self.build()? {
            return Ok("DOES NOT BUILD".into());
        }
        let mut test = self.here(cargo());
        test.arg("test").args(&mutation.test).process_group(0);
        let child = test
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let watchdog = Watchdog::new(child.id(), LIMIT);
        let output = child.wait_with_output()?;
        if watchdog.has_killed() {
            return Ok("DID NOT END".into());
        }
        let streams = [output.stdout, output.stderr]
            .map(|stream| String::from_utf8_lossy(&stream).into_owned());
        let printed = streams.join("\n");
        let outcome = read_outcome(mutation.test_name(), &printed);
        if outcome == NO_RESULT {
            eprintln!("{printed}");
        }
        Ok(outcome.into())
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

const NO_RESULT: &str = "NO RESULT";

/// The outcome for a test from libtest's summary: output of child processes may cut the line of the
/// test itself.
fn read_outcome(name: &str, output: &str) -> &'static str {
    let failures = output
        .rsplit_once("\nfailures:\n")
        .map_or("", |(_, list)| list);
    let summary = |words: &str| output.lines().any(|line| line.starts_with(words));
    if summary("test result: FAILED.") && failures.lines().any(|line| line.trim() == name) {
        "caught"
    } else if summary("test result: ok. 1 passed") {
        "SURVIVED"
    } else {
        NO_RESULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_failure_of_the_named_test_counts() {
        let failed = "running 1 test\ntest a::b ... garbage\nFAILED\n\nfailures:\n\n---- a::b stdout ----\nboom\n\n\
                      failures:\n    a::b\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        let passed = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        assert_eq!(read_outcome("a::b", failed), "caught");
        assert_eq!(read_outcome("b", failed), NO_RESULT, "another test failed");
        assert_eq!(read_outcome("a", passed), "SURVIVED");
        assert_eq!(
            read_outcome(
                "a",
                "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n"
            ),
            NO_RESULT
        );
        assert_eq!(
            read_outcome("a", "error: could not compile `epguard` (lib)\n"),
            NO_RESULT
        );
    }

    #[test]
    fn every_mutation_applies_to_the_sources() {
        for mutation in all().unwrap() {
            let output = command("git")
                .args(["apply", "--check"])
                .arg(&mutation.file)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {error}", mutation.name());
        }
    }
}

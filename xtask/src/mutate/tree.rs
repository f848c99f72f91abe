//! The copy of HEAD in which mutations are applied: a git worktree at `target/mutate`, with build artifacts of its own
//! that stay from one mutation to the next.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;

use super::outcome::{self, Outcome};
use super::patch::Mutation;
use crate::process::{cargo, command, read, root, run as run_command};
use crate::watchdog::Watchdog;

/// For a build and a test. The first build compiles every dependency.
const LIMIT: Duration = Duration::from_mins(30);

/// The copy.
pub(crate) struct Tree {
    folder: PathBuf,
    /// True until the eBPF object is built from HEAD's sources.
    foreign_object: bool,
}

impl Tree {
    /// Makes the copy, or updates the one of an earlier run to HEAD. Unchanged files keep their times, so that
    /// cargo builds only the changes of a mutation.
    pub(crate) fn of_head() -> Result<Self> {
        let head = read(command("git").args(["rev-parse", "HEAD"]))?;
        let tree = Self {
            folder: root().join("target/mutate"),
            foreign_object: true,
        };
        if tree.folder.join(".git").exists() {
            run_command(tree.git().args(["reset", "--quiet", "--hard", head.trim()]))?;
            tree.remove_new_files()?;
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

    /// Resets the copy to HEAD.
    pub(crate) fn restore(&mut self) -> Result<()> {
        run_command(self.git().args(["reset", "--quiet", "--hard"]))?;
        self.remove_new_files()
    }

    /// Applies this mutation alone to HEAD. Returns false if the patch does not apply.
    pub(crate) fn mutate(&mut self, mutation: &Mutation) -> Result<bool> {
        self.restore()?;
        let mut apply = self.git();
        apply.arg("apply").arg(&mutation.file);
        Ok(apply.status().context("cannot run git")?.success())
    }

    /// Runs the mutation's test on the sources as they are.
    pub(crate) fn test(&mut self, mutation: &Mutation) -> Result<Outcome> {
        let changed = !read(self.git().args(["status", "--porcelain"]))?.is_empty();
        if mutation.needs_root() && !self.build(changed && mutation.ebpf)? {
            return Ok(Outcome::DoesNotBuild);
        }
        let mut test = self.here(cargo());
        test.args(&mutation.test)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        test.process_group(0);
        let child = test.spawn().context("cannot run cargo")?;
        let watchdog = Watchdog::new(child.id(), LIMIT);
        let output = child.wait_with_output()?;
        if watchdog.has_killed() {
            return Ok(Outcome::Hung);
        }
        let streams =
            [output.stdout, output.stderr].map(|stream| String::from_utf8_lossy(&stream).into_owned());
        let outcome = outcome::read(mutation.test_name(), &streams.join("\n"));
        if matches!(outcome, Outcome::DoesNotBuild | Outcome::NoResult) {
            eprintln!("{}", streams.join("\n"));
        }
        Ok(outcome)
    }

    /// Builds the object and the binaries that root tests load and start. Returns false if they do not build.
    fn build(&mut self, mutated: bool) -> Result<bool> {
        if mutated || self.foreign_object {
            self.foreign_object = mutated;
            let xtask = std::env::current_exe().context("cannot find this program")?;
            let mut build = command(xtask);
            build
                .arg("build")
                .env("CARGO_MANIFEST_DIR", self.folder.join("xtask"));
            return Ok(self.here(build).status()?.success());
        }
        let mut build = self.here(cargo());
        build.args([
            "build",
            "--quiet",
            "--package",
            "epguard",
            "--package",
            "epguard-lab",
        ]);
        Ok(build.status()?.success())
    }

    /// Removes files that a patch added. Build artifacts are ignored by git, and stay.
    fn remove_new_files(&self) -> Result<()> {
        run_command(self.git().args(["clean", "--quiet", "--force", "-d"]))
    }

    fn git(&self) -> Command {
        self.here(command("git"))
    }

    /// The command in the copy, with the copy's own artifacts.
    fn here(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder).env_remove("CARGO_TARGET_DIR");
        command
    }
}

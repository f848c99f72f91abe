//! `cargo xtask mutate`: breaks the sources in one place at a time, and expects a test to fail.
//!
//! * [`patch`]: fixes outside of the pure crates. Each has a patch that reverts it, and one test
//!   that has to fail.
//! * [`pure`]: every function of the pure crates, by cargo-mutants.

mod patch;
mod pure;
mod tree;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::process::{exit, is_root};
use patch::Patch;
use tree::{Outcome, Tree};

/// What to break.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Break the pure crates (agent/core, common) with cargo-mutants instead of reverting fixes
    #[arg(long)]
    pure: bool,
    /// Fixes by the names of their files, or the beginning of a name; with --pure, source files.
    /// All if none is given
    names: Vec<String>,
}

/// Breaks a copy of HEAD in one place after the other. Fails if a test does not notice one of them.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.pure {
        return pure::run(&args.names);
    }
    let patches = named_patches(&args.names)?;
    if !is_root() && patches.iter().any(Patch::needs_root) {
        bail!(
            "tests among them make namespaces and load BPF programs: run as root, or name other mutations"
        );
    }
    let tree = Tree::of_head()?;
    let mut caught = 0;
    for (number, patch) in (1..).zip(&patches) {
        eprintln!("[{number}/{}] {}", patches.len(), patch.name());
        let shown = match tree.outcome(patch) {
            Ok(outcome) => {
                caught += usize::from(outcome == Outcome::Caught);
                outcome.as_str().to_owned()
            }
            Err(error) => format!("ERROR: {error:#}"),
        };
        println!("| {} | `{}` | {shown} |", patch.row, patch.test_name());
    }
    tree.reset()?;
    println!("{caught} passed, {} failed", patches.len() - caught);
    Ok(exit(caught == patches.len()))
}

/// The patches whose names begin with one of `names`; all if none is given. Errors: no patch has
/// one of the names.
fn named_patches(names: &[String]) -> Result<Vec<Patch>> {
    let mut patches = patch::all()?;
    if names.is_empty() {
        return Ok(patches);
    }
    for name in names {
        if !patches.iter().any(|patch| patch.name().starts_with(name)) {
            bail!("no mutation {name}*.patch in xtask/mutations");
        }
    }
    patches.retain(|patch| names.iter().any(|name| patch.name().starts_with(name)));
    Ok(patches)
}

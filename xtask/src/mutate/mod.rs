//! `cargo xtask mutate`: reverts one fix at a time in a copy of the sources and expects its test to fail.
//!
//! Each `xtask/mutations/*.patch` is one mutation. A mutation that no test notices means that the fix can be lost unseen.

mod outcome;
mod patch;
mod table;
mod tree;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::process::{exit, is_root};
use outcome::Outcome;
use patch::Mutation;
use tree::Tree;

/// Which mutations to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Mutations by the names of their files, or the beginning of a name; all if none is given
    names: Vec<String>,
    /// Run each test first without its mutation: there it has to pass
    #[arg(long)]
    verify: bool,
    /// List the mutations and run nothing
    #[arg(long)]
    list: bool,
}

/// Runs the mutations on a copy of HEAD below `target/mutate`, prints a table, and fails unless every test failed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mutations = select(patch::all()?, &args.names)?;
    if args.list {
        print!(
            "{}",
            table::of(mutations.iter().map(|mutation| (mutation, "-".into())))
        );
        return Ok(ExitCode::SUCCESS);
    }
    if !is_root() && mutations.iter().any(Mutation::needs_root) {
        bail!("tests among them make namespaces and load BPF programs: run as root, or name other mutations");
    }
    let mut tree = Tree::of_head()?;
    let mut results = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        progress(number, mutations.len(), mutation);
        let begun = Instant::now();
        let outcome = judge(&mut tree, mutation, args.verify);
        eprintln!(
            "{}: {outcome} ({:.0} s)",
            mutation.name,
            begun.elapsed().as_secs_f32()
        );
        results.push((mutation, outcome));
    }
    tree.restore()?;
    let rows = results.iter();
    print!(
        "{}",
        table::of(rows.map(|(mutation, outcome)| (*mutation, outcome.to_string())))
    );
    let caught = results.iter().filter(|(_, outcome)| *outcome == Outcome::Caught);
    let caught = caught.count();
    println!("{caught} passed, {} failed", results.len() - caught);
    Ok(exit(caught == results.len()))
}

/// The outcome of one mutation. An error is an outcome too, so that the others still run.
fn judge(tree: &mut Tree, mutation: &Mutation, verify: bool) -> Outcome {
    let result = (|| {
        if verify {
            tree.restore()?;
            match tree.test(mutation)? {
                Outcome::Survived => {}
                Outcome::Caught => return Ok(Outcome::FailsWithout),
                other => return Ok(other),
            }
        }
        if !tree.mutate(mutation)? {
            return Ok(Outcome::DoesNotApply);
        }
        tree.test(mutation)
    })();
    result.unwrap_or_else(|error: anyhow::Error| Outcome::Error(format!("{error:#}")))
}

fn select(all: Vec<Mutation>, names: &[String]) -> Result<Vec<Mutation>> {
    for name in names {
        if !all.iter().any(|mutation| mutation.name.starts_with(name)) {
            bail!("no mutation {name}*.patch in xtask/mutations; `cargo xtask mutate --list` lists them");
        }
    }
    let wanted =
        |mutation: &Mutation| names.is_empty() || names.iter().any(|name| mutation.name.starts_with(name));
    Ok(all.into_iter().filter(wanted).collect())
}

fn progress(number: usize, of: usize, mutation: &Mutation) {
    if std::io::stderr().is_terminal() {
        eprintln!("[{}/{of}] {}: {}", number + 1, mutation.name, mutation.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_are_selected_by_the_beginning_of_their_names() {
        let names = |wanted: &[&str]| -> Vec<String> {
            let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            let all = ["a-1", "a-2", "b-1"].map(patch::named).to_vec();
            select(all, &wanted)
                .unwrap()
                .into_iter()
                .map(|mutation| mutation.name)
                .collect()
        };
        assert_eq!(names(&[]), ["a-1", "a-2", "b-1"]);
        assert_eq!(names(&["a"]), ["a-1", "a-2"]);
        assert_eq!(names(&["b-1", "a-2"]), ["a-2", "b-1"]);
        let error = select(Vec::new(), &["c".into()]).err().unwrap().to_string();
        assert!(error.contains("c*.patch"), "{error}");
    }
}

//! cargo-mutants on the pure crates. `.cargo/mutants.toml` says which changes it leaves out.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::tree::Tree;
use crate::process::{command, exit, root};
use crate::tools;

/// A crate without a clock, a client and a kernel, and the tests that can fail for it.
struct PureCrate {
    package: &'static str,
    /// The folder of its sources.
    sources: &'static str,
    /// Packages with its tests.
    test_packages: &'static str,
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
}

const PURE_CRATES: [PureCrate; 2] = [
    PureCrate {
        package: "epguard-common",
        sources: "common/src/",
        test_packages: "epguard-common",
        tests: &["--lib"],
    },
    PureCrate {
        package: "epguard-core",
        sources: "agent/core/src/",
        test_packages: "epguard-core,epguard",
        tests: &["--lib", "--test", "rootless"],
    },
];

/// The version of cargo-mutants that is built.
const VERSION: &str = "27.1.0";

/// Changes the functions in these source files one by one, or those in all files of the pure
/// crates. Fails if the tests pass with one of the changes.
pub(super) fn run(files: &[String]) -> Result<ExitCode> {
    for file in files {
        if !PURE_CRATES.iter().any(|one| file.starts_with(one.sources)) {
            bail!("{file} is in no pure crate: name files below common/src/ or agent/core/src/");
        }
        if !root().join(file).exists() {
            bail!("no file {file}");
        }
    }
    let cargo_mutants = tools::cargo_tool("cargo-mutants", VERSION, &[])?;
    let tree = Tree::of_head()?;
    let mut all_caught = true;
    for one in &PURE_CRATES {
        let mut files_of_crate = files.to_vec();
        files_of_crate.retain(|file| file.starts_with(one.sources));
        if !files.is_empty() && files_of_crate.is_empty() {
            continue;
        }
        tree.reset()?;
        all_caught &= change(&cargo_mutants, one, &files_of_crate, &tree)?;
    }
    tree.reset()?;
    Ok(exit(all_caught))
}

/// Runs cargo-mutants on files of a crate, all if none is given. Returns true if the tests noticed
/// every change.
fn change(cargo_mutants: &Path, one: &PureCrate, files: &[String], tree: &Tree) -> Result<bool> {
    let output = root().join("target/mutants").join(one.package);
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let mut mutants = command(cargo_mutants);
    // The copy keeps its build artifacts, and its sources may be broken.
    mutants.arg("mutants").arg("--in-place");
    mutants.arg("--dir").arg(&tree.folder);
    mutants.arg("--output").arg(&output);
    mutants.args(["--package", one.package]);
    mutants.args(["--test-package", one.test_packages]);
    for file in files {
        mutants.args(["--file", file]);
    }
    mutants.arg("--").args(one.tests);
    mutants.env_remove("CARGO_TARGET_DIR");
    let status = mutants.status().context("cannot run cargo-mutants")?;
    println!("{}: {}", one.package, output.join("mutants.out").display());
    Ok(status.success())
}

//! The licences of what a binary contains: those of its crates by cargo-about, and those of the
//! libraries that are no crates.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Materials;
use crate::process::{command, read};
use crate::toolchain::TARGET;
use crate::tools;

/// The licences of the agent's crates for a target, and of those of the eBPF object inside of it.
pub(super) fn of_agent(triple: &str) -> Result<String> {
    Ok(of_crates("agent", triple)? + &of_crates("ebpf", TARGET)?)
}

/// The licences of all crates that the package in a folder contains for a target, each with the
/// crates that it is of. cargo-about reads them from the crates' files, and accepts those in
/// about.toml alone.
pub(super) fn of_crates(folder: &str, triple: &str) -> Result<String> {
    // It compares each file with each licence. Without this, that takes a quarter of an hour.
    let quick = "profile.dev.package.spdx.opt-level=3";
    let features = ["--features", "cli", "--config", quick];
    let about = tools::cargo_tool("cargo-about", "0.9.3", &features)?;
    let mut generate = command(about);
    generate.args(["about", "generate", "--fail", "--offline"]);
    generate.args(["--manifest-path", &format!("{folder}/Cargo.toml")]);
    read(generate.args(["--target", triple, "xtask/release/notice.hbs"]))
}

/// Writes the licences of a binary into a file: those of its crates, and of what is no crate.
/// Errors: a crate of the binary has none.
pub(super) fn write(file: &Path, of_crates: &str, materials: &Materials) -> Result<()> {
    for one in &materials.crates {
        let used_by = format!("- {} {}", one.name, one.version);
        let is_named = of_crates.lines().any(|line| {
            line.strip_prefix(&used_by)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        ensure!(is_named, "cargo-about has no licence of {}", one.id());
    }
    let mut text =
        "This program contains the following works, each under its licence.\n".to_owned();
    text += of_crates;
    for library in &materials.libraries {
        let rule = "=".repeat(80);
        write!(
            text,
            "\n{rule}\n{} {} ({})\n\n{}\n",
            library.name,
            library.version,
            library.license,
            library.text.trim_end()
        )?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TARGETS, materials_for};
    use super::*;

    #[test]
    fn the_licences_of_the_libraries_follow_and_a_crate_without_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("NOTICE");
        let materials = materials_for(TARGETS[0]);
        let mut texts = String::new();
        for one in &materials.crates {
            writeln!(
                texts,
                "- {} {} (https://example.com)",
                one.name, one.version
            )
            .unwrap();
        }
        write(&file, &texts, &materials).unwrap();
        let written = fs::read_to_string(&file).unwrap();
        for library in &materials.libraries {
            assert!(written.contains(&format!("\n{} {} (", library.name, library.version)));
        }

        let (_, without_first) = texts.split_once('\n').unwrap();
        let error = write(&file, without_first, &materials).unwrap_err();
        let first = materials.crates[0].id();
        assert_eq!(
            error.to_string(),
            format!("cargo-about has no licence of {first}")
        );
    }
}

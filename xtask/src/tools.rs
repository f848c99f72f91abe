//! Programs of crates.io, built once under `target/tools`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{cargo, command, read, root, run};

/// Where they are.
pub(crate) fn folder() -> PathBuf {
    root().join("target/tools")
}

/// A tool for cargo at a version, built with these features if it is not there.
pub(crate) fn cargo_tool(name: &str, version: &str, features: &str) -> Result<PathBuf> {
    let path = folder().join("bin").join(name);
    let verb = name.trim_start_matches("cargo-");
    let there = path.exists() && read(command(&path).args([verb, "--version"]))?.contains(version);
    if !there {
        println!("setup: building {name} {version} in target/tools, once (some minutes)");
        // They run for seconds, and an optimised build takes four times as long as another.
        let quickly = [
            "--debug",
            "--config",
            "profile.dev.debug=false",
            "--features",
            features,
        ];
        install(name, version, |install| _ = install.args(quickly))?;
    }
    Ok(path)
}

/// Builds a tool; `prepare` adds arguments and variables.
pub(crate) fn install(name: &str, version: &str, prepare: impl FnOnce(&mut Command)) -> Result<()> {
    let build = folder().join("build");
    let mut install = cargo();
    install.args([
        "install",
        &format!("{name}@{version}"),
        "--locked",
        "--force",
    ]);
    install
        .arg("--root")
        .arg(folder())
        .arg("--target-dir")
        .arg(&build);
    prepare(&mut install);
    run(&mut install).with_context(|| format!("cannot build {name}"))?;
    // Hundreds of megabytes that are not needed any more.
    let _ = fs::remove_dir_all(build);
    Ok(())
}

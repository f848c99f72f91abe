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

/// A tool at a version. If it is not there, `cargo install` builds it with these arguments.
pub(crate) fn cargo_tool(name: &str, version: &str, arguments: &[&str]) -> Result<PathBuf> {
    let path = folder().join("bin").join(name);
    let mut asks = command(&path);
    // Cargo starts its tools with their verb.
    asks.args(name.strip_prefix("cargo-")).arg("--version");
    let there = path.exists() && read(&mut asks)?.contains(version);
    if !there {
        println!("setup: building {name} {version} in target/tools, once (some minutes)");
        // They run for seconds, and an optimised build takes four times as long as another.
        let quickly = ["--debug", "--config", "profile.dev.debug=false"];
        install(name, version, |install| {
            install.args(quickly).args(arguments);
        })?;
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

//! Debian's `rustc-web`: a stable compiler that comes with `core` for BPF, so only our crates must
//! be built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::without_host_settings;
use crate::arch::Arch;
use crate::packages;
use crate::process::{command, read};
use crate::tools;

const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const CARGO_CLIPPY: &str = "/usr/bin/cargo-clippy";
const CORE: &str = "/usr/lib/rustlib/bpfel-unknown-none/lib";

/// Whether compiler, cargo and `core` are installed. Debian's older `rustc` alone has no `core` for
/// BPF.
pub(super) fn is_complete() -> bool {
    let core = fs::read_dir(CORE).is_ok_and(|files| {
        files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
    });
    core && Path::new(RUSTC).exists() && Path::new(CARGO).exists()
}

pub(super) fn install() -> Result<()> {
    packages::install(&PACKAGES)
}

pub(super) fn ensure_clippy() -> Result<()> {
    packages::install_missing(&[(CARGO_CLIPPY, "rust-web-clippy")])
}

/// The system root with `std` for a foreign architecture: out of Debian's package, without
/// installing it.
pub(crate) fn std_for(arch: Arch) -> Result<PathBuf> {
    if !is_complete() {
        install()?;
    }
    let version = read(rustc().arg("--version"))?;
    let version = version
        .split(' ')
        .nth(1)
        .context("rustc --version names none")?;
    let tree = tools::folder().join(format!("std-{}-{version}", arch.name()));
    packages::unpack_all(arch, &["libstd-rust-web-dev"], &tree)?;
    let library = tree
        .join("usr/lib/rustlib")
        .join(format!("{}-unknown-linux-gnu", arch.machine()));
    ensure!(
        library.exists(),
        "Debian's libstd-rust-web-dev has no {}",
        library.display()
    );
    Ok(tree.join("usr"))
}

pub(crate) fn rustc() -> Command {
    without_host_settings(command(RUSTC))
}

/// cargo, ready for `verb`. By default it would search ~/.cargo/bin first and find rustup's
/// cargo-clippy.
pub(crate) fn cargo(verb: &str) -> Command {
    let program = if verb == "clippy" {
        CARGO_CLIPPY
    } else {
        CARGO
    };
    let mut cargo = without_host_settings(command(program));
    // The BPF target is unstable; this compiler is a stable one.
    cargo
        .env("CARGO", CARGO)
        .env("RUSTC", RUSTC)
        .env("RUSTC_BOOTSTRAP", "1");
    cargo
}

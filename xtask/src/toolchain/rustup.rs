//! rustup's nightly with rust-src: works on any distribution, and builds `core` itself.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::without_host_settings;
use crate::process::{command, read, root, run, which};

/// The nightly that `ebpf/rust-toolchain.toml` names: its single source.
pub(super) fn pinned() -> Result<String> {
    let file = "ebpf/rust-toolchain.toml";
    let text =
        fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
    channel(&text).with_context(|| format!("{file} names no channel"))
}

/// Whether `nightly` is installed with the sources of `core`.
pub(super) fn is_complete(nightly: &str) -> bool {
    let core = "lib/rustlib/src/rust/library/core";
    which("rustup").is_some()
        && read(program(nightly, "rustc").args(["--print", "sysroot"]))
            .is_ok_and(|sysroot| Path::new(sysroot.trim()).join(core).exists())
}

pub(super) fn install(nightly: &str) -> Result<()> {
    if which("rustup").is_none() {
        bail!("EPGUARD_EBPF_TOOLCHAIN=rustup, but there is no rustup on PATH");
    }
    println!("setup: installing rustup's {nightly} with rust-src and clippy");
    let mut rustup = without_host_settings(command("rustup"));
    rustup.args(["toolchain", "install", nightly, "--profile", "minimal"]);
    run(rustup.args(["--component", "rust-src", "--component", "clippy"])).context(
        "no eBPF toolchain (Debian's packages are the other way: EPGUARD_EBPF_TOOLCHAIN=debian)",
    )
}

pub(super) fn ensure_clippy(nightly: &str) -> Result<()> {
    read(program(nightly, "cargo-clippy").arg("--version"))
        .map(drop)
        .with_context(|| format!("run `rustup component add clippy --toolchain {nightly}`"))
}

/// A program of this nightly.
pub(super) fn program(nightly: &str, name: &str) -> Command {
    let mut rustup = without_host_settings(command("rustup"));
    rustup.args(["run", nightly, name]);
    rustup
}

fn channel(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("channel"))?;
    let (_, value) = value.split_once('=')?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_is_read_from_the_toolchain_file() {
        let text = "# why\n[toolchain]\nchannel = \"nightly-2026-05-20\"\ncomponents = []\n";
        assert_eq!(channel(text).as_deref(), Some("nightly-2026-05-20"));
        assert_eq!(channel("[toolchain]\n"), None);
        assert!(pinned().unwrap().starts_with("nightly-"));
    }
}

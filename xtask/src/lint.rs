//! `cargo xtask lint`: the checks that run nothing of epguard.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::files;
use crate::ladder::{Counted, Ladder};
use crate::linker;
use crate::process::cargo;
use crate::toolchain::Toolchain;

/// Runs the checks alone.
pub(crate) fn run() -> Result<ExitCode> {
    let mut ladder = Ladder::default();
    add_to(&mut ladder);
    Ok(ladder.finish())
}

/// Runs the checks as the first steps of `ladder`.
pub(crate) fn add_to(ladder: &mut Ladder) {
    ladder.run(
        "format",
        Counted::ByExit,
        cargo_with(&["fmt", "--all", "--check"]),
    );
    ladder.check("file lengths", files::check_lengths);
    let host = ["clippy", "--all-targets", "--", "-D", "warnings"];
    ladder.run("clippy, host", Counted::ByExit, cargo_with(&host));
    clippy_ebpf(ladder);
    let mut docs = cargo_with(&["doc", "--no-deps", "--document-private-items"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    ladder.run("docs", Counted::ByExit, docs);
}

/// A pass of its own: one run over host and eBPF crates would unify their features, and `std` with them.
fn clippy_ebpf(ladder: &mut Ladder) {
    let title = "clippy, eBPF";
    match Toolchain::find() {
        None => ladder.leave_out(title, "no eBPF toolchain; `cargo xtask setup` installs one"),
        Some(toolchain) if !toolchain.has_clippy() => {
            ladder.leave_out(title, &format!("it has no clippy; {}", toolchain.clippy_remedy()));
        }
        Some(toolchain) => {
            // Clippy links nothing, yet the same flags keep one set of artifacts.
            let linker = linker::find(&toolchain).unwrap_or_else(|| "bpf-linker".into());
            let mut clippy = toolchain.cargo(&["clippy", "--release"], &linker);
            clippy.args(["--", "-D", "warnings"]);
            ladder.run(title, Counted::ByExit, clippy);
        }
    }
}

fn cargo_with(args: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(args);
    cargo
}

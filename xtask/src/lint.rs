//! `cargo xtask lint`: the checks that run nothing of epguard.

use std::process::{Command, ExitCode};

use crate::ladder::{Count, Counted, Ladder};
use crate::linker;
use crate::pages;
use crate::process::{cargo, read};
use crate::release;
use crate::toolchain::Toolchain;

/// Runs the checks alone, and that of the dependencies.
pub(crate) fn run() -> ExitCode {
    let mut ladder = Ladder::default();
    add_to(&mut ladder);
    ladder.check("dependencies", || release::check_dependencies().map(|()| Count { passed: 1, failed: 0 }));
    ladder.finish()
}

/// Runs those checks as the first steps of `ladder` that need no network.
pub(crate) fn add_to(ladder: &mut Ladder) {
    component(ladder, "format", "rustfmt", &["fmt", "--all", "--check"]);
    ladder.find("pages", pages::check);
    component(ladder, "clippy, host", "clippy", &["clippy", "--all-targets", "--", "-D", "warnings"]);
    clippy_ebpf(ladder);
    let mut docs = cargo_with(&["doc", "--no-deps", "--document-private-items"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    ladder.run("docs", Counted::ByExit, docs);
}

/// A check by a part of the Rust toolchain that a minimal installation lacks.
fn component(ladder: &mut Ladder, title: &str, component: &str, args: &[&str]) {
    if read(cargo_with(&args[..1]).arg("--version")).is_ok() {
        ladder.run(title, Counted::ByExit, cargo_with(args));
    } else {
        ladder.leave_out(title, &format!("no {component}; run `rustup component add {component}`"));
    }
}

/// Clippy for the eBPF crates, by itself: one run over host and eBPF crates would unify their features, and `std` with them.
fn clippy_ebpf(ladder: &mut Ladder) {
    let title = "clippy, eBPF";
    let Some(toolchain) = Toolchain::find() else {
        return ladder.leave_out(title, "no eBPF toolchain; `cargo xtask setup` installs one");
    };
    if let Err(error) = toolchain.ensure_clippy() {
        return ladder.leave_out(title, &format!("{error:#}"));
    }
    // Clippy does not link, but the same flags keep one set of artifacts.
    let linker = linker::find(&toolchain).unwrap_or_else(|| "bpf-linker".into());
    let mut clippy = toolchain.cargo(&["clippy", "--release"], &linker);
    clippy.args(["--", "-D", "warnings"]);
    ladder.run(title, Counted::ByExit, clippy);
}

fn cargo_with(args: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(args);
    cargo
}

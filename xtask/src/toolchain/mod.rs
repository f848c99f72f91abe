//! The compiler for the eBPF object: the host's stable compiler cannot build it. Two sources:
//! `debian` and `rustup`.

pub(crate) mod debian;
mod rustup;

use std::env;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths::renamed;
use crate::process::{read, which};

/// BPF has the byte order of the machine it runs on; every one that epguard supports is
/// little-endian.
pub(crate) const TARGET: &str = "bpfel-unknown-none";

/// The eBPF crates: the datapath, and the lab's programs of neighbours. Each makes an object of its
/// own name.
pub(crate) const OBJECTS: [&str; 2] = ["epguard-ebpf", "epguard-neighbour"];

/// An installed eBPF compiler.
pub(crate) struct Toolchain {
    route: Route,
    /// Of Rust: `1.96.0`.
    pub(crate) release: String,
    /// Major version of the compiler's LLVM; bpf-linker must have the same.
    pub(crate) llvm: u32,
}

enum Route {
    Debian,
    Rustup { nightly: String },
}

impl Toolchain {
    /// Finds the toolchain or installs it.
    pub(crate) fn ensure() -> Result<Self> {
        let route = Route::choose()?;
        match &route {
            route if route.is_complete() => {}
            Route::Debian => debian::install()?,
            Route::Rustup { nightly } => rustup::install(nightly)?,
        }
        Self::describe(route)
    }

    /// Finds the toolchain, installing nothing.
    pub(crate) fn find() -> Option<Self> {
        let route = Route::choose().ok().filter(Route::is_complete)?;
        Self::describe(route).ok()
    }

    /// This toolchain's cargo, with `args` (the verb first) for the eBPF crates and a target
    /// directory of its own.
    pub(crate) fn cargo(&self, args: &[&str], linker: &Path) -> Command {
        let mut cargo = match &self.route {
            Route::Debian => debian::cargo(args[0]),
            Route::Rustup { nightly } => rustup::program(nightly, "cargo"),
        };
        cargo.args(args);
        cargo.args(OBJECTS.iter().flat_map(|object| ["--package", object]));
        cargo.args(["--target", TARGET, "--target-dir", "target/bpf"]);
        if let Route::Rustup { .. } = self.route {
            cargo.args(["-Z", "build-std=core"]);
        }
        cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags(linker));
        // In an incremental build functions are inlined less, and the verifier refuses the object.
        cargo.env("CARGO_INCREMENTAL", "0");
        cargo
    }

    /// Ensures that this toolchain has clippy; if it cannot be installed, the error says how to get
    /// it.
    pub(crate) fn ensure_clippy(&self) -> Result<()> {
        match &self.route {
            Route::Debian => debian::ensure_clippy(),
            Route::Rustup { nightly } => rustup::ensure_clippy(nightly),
        }
    }

    fn describe(route: Route) -> Result<Self> {
        let mut rustc = match &route {
            Route::Debian => debian::rustc(),
            Route::Rustup { nightly } => rustup::program(nightly, "rustc"),
        };
        let version = read(rustc.arg("-vV"))?;
        let release = field(&version, "release:")
            .context("rustc -vV names no release")?
            .to_string();
        let llvm =
            field(&version, "LLVM version:").and_then(|llvm| llvm.split('.').next()?.parse().ok());
        Ok(Self {
            route,
            release,
            llvm: llvm.context("rustc -vV names no LLVM version")?,
        })
    }
}

/// A field of `rustc -vV`.
fn field<'a>(version: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = version.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.route {
            Route::Debian => write!(f, "Debian's rustc {} with its prebuilt core", self.release)?,
            Route::Rustup { nightly } => write!(f, "rustup's {nightly} with -Z build-std=core")?,
        }
        write!(f, " (LLVM {})", self.llvm)
    }
}

impl Route {
    /// The toolchain that `EPGUARD_EBPF_TOOLCHAIN` names; without it an installed one; else one
    /// that can be installed.
    fn choose() -> Result<Self> {
        let nightly = rustup::pinned()?;
        Ok(match env::var("EPGUARD_EBPF_TOOLCHAIN").as_deref() {
            Ok("debian") => Self::Debian,
            Ok("rustup") => Self::Rustup { nightly },
            Ok(other) => {
                bail!("EPGUARD_EBPF_TOOLCHAIN is `{other}`; it may be `debian` or `rustup`")
            }
            Err(_) if debian::is_complete() => Self::Debian,
            Err(_) if rustup::is_complete(&nightly) => Self::Rustup { nightly },
            Err(_) if which("apt-get").is_some() || which("rustup").is_none() => Self::Debian,
            Err(_) => Self::Rustup { nightly },
        })
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Debian => debian::is_complete(),
            Self::Rustup { nightly } => rustup::is_complete(nightly),
        }
    }
}

/// bpf-linker makes BTF from debug information; without BTF no map has field names.
fn rustflags(linker: &Path) -> String {
    let linker = format!("linker={}", linker.display());
    let arch = format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH);
    let flags = [
        "-C",
        "debuginfo=2",
        "-C",
        "link-arg=--btf",
        "-C",
        &linker,
        &arch,
    ];
    let renamed = renamed(&[]);
    let flags = flags.into_iter().chain(renamed.iter().map(String::as_str));
    flags.collect::<Vec<_>>().join("\x1f")
}

/// Removes the variables that `cargo run` and the user set for the host's compiler.
fn without_host_settings(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_for_the_host) {
            command.env_remove(name);
        }
    }
    command
}

fn is_for_the_host(name: &str) -> bool {
    name.starts_with("RUSTC")
        || name.starts_with("CARGO_BUILD_")
        || matches!(
            name,
            "RUSTUP_TOOLCHAIN" | "RUSTDOC" | "RUSTFLAGS" | "CARGO_ENCODED_RUSTFLAGS"
        )
        || matches!(name, "CARGO_TARGET_DIR" | "LD_LIBRARY_PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_compiler_settings_do_not_reach_the_ebpf_compiler() {
        for name in [
            "RUSTUP_TOOLCHAIN",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "CARGO_BUILD_TARGET",
        ] {
            assert!(is_for_the_host(name), "{name}");
        }
        assert!(!is_for_the_host("CARGO_HOME") && !is_for_the_host("RUSTUP_HOME"));
    }
}

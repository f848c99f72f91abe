//! The compiler for the eBPF object: Debian's, with a prebuilt `core`, or rustup's nightly with rust-src.

use std::env;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::process::{command, read, root, run, which};

/// BPF programs run in the kernel of this machine; every architecture epguard supports is little-endian.
pub(crate) const TARGET: &str = "bpfel-unknown-none";

const DEBIAN_PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "libstd-rust-web-dev-bpf"];
const DEBIAN_CORE: &str = "/usr/lib/rustlib/bpfel-unknown-none/lib";

/// An eBPF compiler that is there.
pub(crate) struct Toolchain {
    route: Route,
    release: String,
    /// Major version of the compiler's LLVM; bpf-linker must have the same.
    pub(crate) llvm: u32,
}

enum Route {
    Debian,
    Rustup { nightly: String },
}

impl Toolchain {
    /// Finds the toolchain, installing it where `EPGUARD_EBPF_TOOLCHAIN` (`debian` or `rustup`) or, without
    /// that, what the machine has, says which one.
    pub(crate) fn ensure() -> Result<Self> {
        let route = Self::choose()?;
        match &route {
            Route::Debian if !debian_is_complete() => packages::install(&DEBIAN_PACKAGES.map(String::from))?,
            Route::Rustup { nightly } if !nightly_is_complete(nightly) => install_nightly(nightly)?,
            _ => {}
        }
        Self::describe(route)
    }

    /// Finds the toolchain without installing anything.
    pub(crate) fn find() -> Option<Self> {
        let route = Self::choose().ok()?;
        let complete = match &route {
            Route::Debian => debian_is_complete(),
            Route::Rustup { nightly } => nightly_is_complete(nightly),
        };
        if complete {
            Self::describe(route).ok()
        } else {
            None
        }
    }

    fn choose() -> Result<Route> {
        let rustup = || pinned_nightly().map(|nightly| Route::Rustup { nightly });
        match env::var("EPGUARD_EBPF_TOOLCHAIN").as_deref() {
            Ok("debian") => Ok(Route::Debian),
            Ok("rustup") => rustup(),
            Ok(other) => bail!("EPGUARD_EBPF_TOOLCHAIN is `{other}`; it may be `debian` or `rustup`"),
            Err(_) if debian_is_complete() => Ok(Route::Debian),
            Err(_) if nightly_is_complete(&pinned_nightly()?) => rustup(),
            Err(_) if which("apt-get").is_some() || which("rustup").is_none() => Ok(Route::Debian),
            Err(_) => rustup(),
        }
    }

    fn describe(route: Route) -> Result<Self> {
        let mut rustc = match &route {
            Route::Debian => clean(command("/usr/bin/rustc")),
            Route::Rustup { nightly } => rustup_run(nightly, "rustc"),
        };
        let version = read(rustc.arg("-vV"))?;
        let field = |name: &str| {
            version
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
                .map(String::from)
        };
        let release = field("release:").context("rustc -vV names no release")?;
        let llvm = field("LLVM version:").context("rustc -vV names no LLVM version")?;
        let llvm = llvm.split('.').next().unwrap_or_default().parse();
        Ok(Self {
            route,
            release,
            llvm: llvm.context("rustc -vV: LLVM version is not a number")?,
        })
    }

    /// This toolchain's cargo, with `args` for the eBPF target and a target directory of its own:
    /// the host's compiler would otherwise rebuild everything on every change of hands.
    pub(crate) fn cargo(&self, args: &[&str], linker: &Path) -> Command {
        let mut cargo = self.cargo_subcommand(args[0]);
        cargo.args(args).args([
            "--package",
            "epguard-ebpf",
            "--target",
            TARGET,
            "--target-dir",
            "target/bpf",
        ]);
        match &self.route {
            Route::Debian => cargo.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1"),
            Route::Rustup { .. } => cargo.args(["-Z", "build-std=core"]),
        };
        cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags(linker));
        cargo
    }

    /// Ensures that this toolchain has clippy; where it cannot be had, the error says how.
    pub(crate) fn ensure_clippy(&self) -> Result<()> {
        match &self.route {
            Route::Debian if Path::new("/usr/bin/cargo-clippy").exists() => Ok(()),
            Route::Debian => packages::install(&["rust-web-clippy".into()]),
            Route::Rustup { nightly } => read(rustup_run(nightly, "cargo-clippy").arg("--version"))
                .map(drop)
                .with_context(|| format!("run `rustup component add clippy --toolchain {nightly}`")),
        }
    }

    fn cargo_subcommand(&self, verb: &str) -> Command {
        match &self.route {
            // cargo would look for cargo-clippy in ~/.cargo/bin first and find rustup's.
            Route::Debian if verb == "clippy" => {
                let mut clippy = clean(command("/usr/bin/cargo-clippy"));
                clippy.env("CARGO", "/usr/bin/cargo");
                clippy
            }
            Route::Debian => clean(command("/usr/bin/cargo")),
            Route::Rustup { nightly } => rustup_run(nightly, "cargo"),
        }
    }
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

fn debian_is_complete() -> bool {
    let core = fs::read_dir(DEBIAN_CORE).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libcore-")))
    });
    core && Path::new("/usr/bin/rustc").exists() && Path::new("/usr/bin/cargo").exists()
}

/// The nightly that `ebpf/rust-toolchain.toml` names: its single source.
fn pinned_nightly() -> Result<String> {
    let file = "ebpf/rust-toolchain.toml";
    let text = fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
    channel(&text).with_context(|| format!("{file} names no channel"))
}

fn channel(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("channel"))?;
    Some(
        value
            .trim_start()
            .strip_prefix('=')?
            .trim()
            .trim_matches('"')
            .to_string(),
    )
}

fn nightly_is_complete(nightly: &str) -> bool {
    which("rustup").is_some()
        && read(rustup_run(nightly, "rustc").args(["--print", "sysroot"])).is_ok_and(|sysroot| {
            Path::new(sysroot.trim())
                .join("lib/rustlib/src/rust/library/core")
                .exists()
        })
}

fn install_nightly(nightly: &str) -> Result<()> {
    if which("rustup").is_none() {
        bail!("EPGUARD_EBPF_TOOLCHAIN=rustup, but there is no rustup on PATH");
    }
    println!("setup: installing rustup's {nightly} with rust-src and clippy");
    let mut rustup = clean(command("rustup"));
    rustup.args(["toolchain", "install", nightly, "--profile", "minimal"]);
    run(rustup.args(["--component", "rust-src", "--component", "clippy"])).context(
        "no eBPF toolchain; on Debian bookworm EPGUARD_EBPF_TOOLCHAIN=debian uses its packages instead",
    )
}

fn rustup_run(nightly: &str, program: &str) -> Command {
    let mut rustup = clean(command("rustup"));
    rustup.args(["run", nightly, program]);
    rustup
}

/// What `cargo run` and the user set for the host's compiler must not reach this one.
fn clean(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("RUSTC") || name.starts_with("CARGO_BUILD_") || HOST_ONLY.contains(&&*name) {
            command.env_remove(&*name);
        }
    }
    command
}

const HOST_ONLY: [&str; 6] = [
    "RUSTUP_TOOLCHAIN",
    "RUSTDOC",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
];

/// Debug information is what bpf-linker makes BTF from; without BTF no map has field names.
fn rustflags(linker: &Path) -> String {
    let linker = format!("linker={}", linker.display());
    let arch = format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH);
    ["-C", "debuginfo=2", "-C", "link-arg=--btf", "-C", &linker, &arch].join("\x1f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_is_read_from_the_toolchain_file() {
        let text = "# why\n[toolchain]\nchannel = \"nightly-2026-05-20\"\ncomponents = []\n";
        assert_eq!(channel(text).as_deref(), Some("nightly-2026-05-20"));
        assert_eq!(channel("[toolchain]\n"), None);
        assert!(pinned_nightly().unwrap().starts_with("nightly-"));
    }
}

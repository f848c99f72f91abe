//! The architectures that epguard is shipped for, and a cargo for each that links statically, on
//! either of them. The plugin is shipped for Windows, too.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::packages;
use crate::process::{cargo, command, read, run, which};
use crate::toolchain::debian;

/// Of a node's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// This machine's.
    pub(crate) fn host() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("epguard is built for amd64 and arm64; this machine is {other}"),
        }
    }

    /// As Debian, Go and OCI images name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As the kernel, GNU and rustc name it.
    pub(crate) fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// A compiler for one architecture.
pub(crate) struct Compiler {
    pub(crate) triple: String,
    /// For rustc.
    flags: Vec<String>,
    /// Debian's, which knows a foreign architecture once its `std` is unpacked; else the one that
    /// runs us.
    is_debians: bool,
    /// Of a foreign architecture: links, and compiles the C and assembly of the cryptography.
    gcc: Option<String>,
}

impl Compiler {
    /// Finds or installs one. It links with musl where rustup has that target, else with glibc.
    pub(crate) fn ensure(arch: Arch) -> Result<Self> {
        let sysroot = read(command("rustc").args(["--print", "sysroot"]))?;
        let triple = |libc: &str| format!("{}-unknown-linux-{libc}", arch.machine());
        let is_foreign = arch != Arch::host()?;
        let found = ["musl", "gnu"].map(triple).into_iter().find(|triple| {
            Path::new(sysroot.trim())
                .join("lib/rustlib")
                .join(triple)
                .exists()
        });
        let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
        if found.is_none() {
            println!(
                "setup: without `rustup target add {}` Debian's compiler builds for {}",
                triple("musl"),
                arch.name()
            );
            flags.push(format!("--sysroot={}", debian::std_for(arch)?.display()));
        }
        let gcc = is_foreign.then(|| format!("{}-linux-gnu-gcc", arch.machine()));
        if let Some(gcc) = &gcc {
            let package = format!("gcc-{}-linux-gnu", arch.machine().replace('_', "-"));
            let libc = Path::new("/usr").join(format!("{}-linux-gnu/lib/libc.a", arch.machine()));
            if which(gcc).is_none() || !libc.exists() {
                packages::install(&[&package, &format!("libc6-dev-{}-cross", arch.name())])?;
            }
        }
        let is_debians = found.is_none();
        Ok(Self {
            triple: found.unwrap_or_else(|| triple("gnu")),
            flags,
            is_debians,
            gcc,
        })
    }

    /// Finds or installs one for Windows on amd64: rustup's `std`, and MinGW's gcc as the linker.
    pub(crate) fn ensure_windows() -> Result<Self> {
        let triple = "x86_64-pc-windows-gnu";
        let gcc = "x86_64-w64-mingw32-gcc";
        let sysroot = read(command("rustc").args(["--print", "sysroot"]))?;
        let std = Path::new(sysroot.trim()).join("lib/rustlib").join(triple);
        if !std.exists() {
            ensure!(
                which("rustup").is_some(),
                "rustc has no std for {triple}; install rustup, then run `rustup target add {triple}`"
            );
            println!("setup: rustup target add {triple}");
            run(command("rustup").args(["target", "add", triple]))?;
        }
        packages::install_missing(&[(gcc, "gcc-mingw-w64-x86-64")])?;
        Ok(Self {
            triple: triple.to_owned(),
            flags: vec!["-Ctarget-feature=+crt-static".to_owned()],
            is_debians: false,
            gcc: Some(gcc.to_owned()),
        })
    }

    /// cargo, with `verb` for this architecture, and rustc with further flags.
    pub(crate) fn cargo(&self, verb: &str, flags: Vec<String>) -> Command {
        let mut cargo = if self.is_debians {
            debian::cargo(verb)
        } else {
            cargo()
        };
        // Crates that see an unstable compiler use what it alone has.
        cargo
            .env_remove("RUSTC_BOOTSTRAP")
            .args([verb, "--locked", "--target", &self.triple]);
        let flags = [self.flags.clone(), flags].concat();
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        if let Some(gcc) = &self.gcc {
            let triple = self.triple.replace('-', "_");
            cargo.env(
                format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase()),
                gcc,
            );
            cargo.env(format!("CC_{triple}"), gcc);
        }
        cargo
    }
}

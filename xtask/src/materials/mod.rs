//! What a shipped binary contains: its crates, those of the eBPF object inside of it, Rust's
//! standard library, and the C library that it links statically.

mod bill;
mod crates;
mod notice;
mod system;

use std::path::Path;

use anyhow::Result;

use crate::arch::{Arch, Compiler};
use crate::commit::Commit;
use crate::place::VERSION;
use crate::plugin::Platform;
use crate::toolchain::{TARGET, Toolchain};
use crates::Crate;
use system::Library;

/// A binary, as one compiler builds it.
pub(crate) struct Binary {
    /// The package in the workspace that has it.
    pub(crate) package: &'static str,
    /// The target that it is built for: `x86_64-unknown-linux-musl`.
    pub(crate) triple: String,
    /// Whether the eBPF object is inside.
    pub(crate) has_object: bool,
}

/// Its parts.
struct Materials {
    /// The crates, the workspace's own among them, sorted by name and version.
    crates: Vec<Crate>,
    /// What the compiler and the C library add.
    libraries: Vec<Library>,
}

impl Binary {
    /// The agent for one architecture.
    pub(crate) fn agent(compiler: &Compiler) -> Self {
        Self {
            package: "epguard",
            triple: compiler.triple.clone(),
            has_object: true,
        }
    }

    fn materials(&self, compiler: &Compiler) -> Result<Materials> {
        let mut libraries = system::libraries(compiler)?;
        if self.has_object {
            libraries.push(system::core(&Toolchain::ensure()?.release));
        }
        Ok(Materials {
            crates: self.crates()?,
            libraries,
        })
    }

    /// The crates of the binary, and those of the eBPF object inside of it.
    fn crates(&self) -> Result<Vec<Crate>> {
        let mut crates = crates::of(self.package, &self.triple)?;
        if self.has_object {
            crates::merge(&mut crates, crates::of("epguard-ebpf", TARGET)?);
        }
        Ok(crates)
    }
}

/// Writes for each architecture the bill of materials and the licences of the agent into a folder.
pub(crate) fn write(folder: &Path, commit: &Commit) -> Result<()> {
    let texts = notice::of_agent()?;
    for arch in Arch::ALL {
        let compiler = Compiler::ensure(arch)?;
        let binary = Binary::agent(&compiler);
        let materials = binary.materials(&compiler)?;
        let bill = folder.join(format!("epguard-{VERSION}-linux-{}.cdx.json", arch.name()));
        bill::write(&bill, &binary, &materials, commit)?;
        let notice = folder.join(format!("NOTICE-linux-{}", arch.name()));
        notice::write(&notice, &texts, &materials)?;
    }
    Ok(())
}

/// Writes the licences of kubectl's plugin for a platform into a file. On macOS it links the
/// system's own C library, so that it contains Rust's alone.
pub(crate) fn write_plugin_notice(platform: Platform, file: &Path) -> Result<()> {
    let libraries = match platform {
        Platform::Linux(arch) => system::libraries(&Compiler::ensure(arch)?)?,
        Platform::Windows => system::libraries(&Compiler::ensure_windows()?)?,
        Platform::Darwin(_) => vec![system::std(&Compiler::ensure(Arch::host()?)?)?],
    };
    let materials = Materials {
        crates: crates::of("kubectl-epguard", &platform.triple()?)?,
        libraries,
    };
    notice::write(file, &notice::of_plugin()?, &materials)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets of the agent, with either C library.
    pub(super) const TARGETS: [&str; 2] =
        ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];

    /// The agent for a target, with libraries as a compiler for it would link them: none is
    /// installed for this.
    pub(super) fn materials_for(triple: &str) -> (Binary, Materials) {
        let binary = Binary {
            package: "epguard",
            triple: triple.to_owned(),
            has_object: true,
        };
        let std = Library {
            name: "rust-std".to_owned(),
            version: "1.96.0".to_owned(),
            license: "Apache-2.0 OR MIT",
            purl: "pkg:generic/rust-std@1.96.0".to_owned(),
            text: "its licences".to_owned(),
        };
        let materials = Materials {
            crates: binary.crates().unwrap(),
            libraries: vec![std, system::core("1.96.0")],
        };
        (binary, materials)
    }
}

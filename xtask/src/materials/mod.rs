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

/// The package of the agent's binary.
const AGENT: &str = "epguard";
/// The package of the eBPF object inside of it.
const OBJECT: &str = "epguard-ebpf";

/// The parts of a binary.
struct Materials {
    /// The crates, the workspace's own among them, sorted by name and version.
    crates: Vec<Crate>,
    /// What the compiler and the C library add.
    libraries: Vec<Library>,
}

impl Materials {
    /// Those of the agent for a target, with the eBPF object inside of it.
    fn of_agent(triple: &str, mut libraries: Vec<Library>) -> Result<Self> {
        let mut crates = crates::of(AGENT, triple)?;
        crates::merge(&mut crates, crates::of(OBJECT, TARGET)?);
        libraries.push(system::core(&Toolchain::ensure()?.release));
        Ok(Self { crates, libraries })
    }
}

/// Writes for each architecture the bill of materials and the licences of the agent into a folder.
pub(crate) fn write(folder: &Path, commit: &Commit) -> Result<()> {
    for arch in Arch::ALL {
        let compiler = Compiler::ensure(arch)?;
        let triple = &compiler.triple;
        let materials = Materials::of_agent(triple, system::libraries(&compiler)?)?;
        let bill = folder.join(format!("epguard-{VERSION}-linux-{}.cdx.json", arch.name()));
        bill::write(&bill, triple, &materials, commit)?;
        let notice = folder.join(format!("NOTICE-linux-{}", arch.name()));
        notice::write(&notice, &notice::of_agent(triple)?, &materials)?;
    }
    Ok(())
}

/// Writes the licences of kubectl's plugin for a platform into a file. On macOS it links the
/// system's own C library, so that it contains Rust's alone.
pub(crate) fn write_plugin_notice(platform: Platform, file: &Path) -> Result<()> {
    let (triple, libraries) = match platform.compiler()? {
        Some(compiler) => (compiler.triple.clone(), system::libraries(&compiler)?),
        None => (
            format!("{}-apple-darwin", platform.arch().machine()),
            vec![system::std(&Compiler::ensure(Arch::host()?)?)?],
        ),
    };
    let materials = Materials {
        crates: crates::of("kubectl-epguard", &triple)?,
        libraries,
    };
    notice::write(
        file,
        &notice::of_crates("agent/plugin", &triple)?,
        &materials,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets of the agent, with either C library.
    pub(super) const TARGETS: [&str; 2] =
        ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];

    /// Those of the agent for a target, with a library as a compiler for it would link it: none is
    /// installed for this.
    pub(super) fn materials_for(triple: &str) -> Materials {
        let std = Library {
            name: "rust-std".to_owned(),
            version: "1.96.0".to_owned(),
            license: "Apache-2.0 OR MIT",
            purl: "pkg:generic/rust-std@1.96.0".to_owned(),
            text: "its licences".to_owned(),
        };
        Materials::of_agent(triple, vec![std]).unwrap()
    }
}

//! bpf-linker: the one on PATH if its LLVM is the compiler's, else built once under `target/tools`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::process::which;
use crate::toolchain::Toolchain;
use crate::tools;

/// The version that is built where none is found; bump it together with the compilers.
const VERSION: &str = "0.13.0";

/// Finds or builds a linker that can read what `toolchain` emits.
pub(crate) fn ensure(toolchain: &Toolchain) -> Result<PathBuf> {
    if let Some(found) = find(toolchain) {
        return Ok(found);
    }
    let llvm = toolchain.llvm;
    let prefix = format!("/usr/lib/llvm-{llvm}");
    if !Path::new(&prefix).join("bin/llvm-config").exists() {
        packages::install(&[&format!("llvm-{llvm}-dev")]).with_context(|| {
            format!("no bpf-linker for LLVM {llvm} on PATH, and building one needs LLVM's headers")
        })?;
    }
    println!(
        "setup: building bpf-linker {VERSION} for LLVM {llvm} in target/tools, once (a minute or two)"
    );
    let features = format!("llvm-{llvm}");
    tools::install("bpf-linker", VERSION, |install| {
        install.args(["--no-default-features", "--features", &features]);
        // Both are read: the first by bpf-linker's build script, the second by llvm-sys.
        install
            .env("LLVM_PREFIX", &prefix)
            .env(format!("LLVM_SYS_{llvm}1_PREFIX"), &prefix);
    })
    .context("a prebuilt bpf-linker on PATH will do as well")?;
    match find(toolchain) {
        Some(built) => Ok(built),
        None => bail!(
            "bpf-linker was built but does not contain LLVM {llvm}; remove target/tools and retry"
        ),
    }
}

/// Finds or installs LLVM's strip, of any version.
pub(crate) fn ensure_strip(toolchain: &Toolchain) -> Result<PathBuf> {
    let beside_linker = PathBuf::from(format!("/usr/lib/llvm-{}/bin/llvm-strip", toolchain.llvm));
    if beside_linker.exists() {
        return Ok(beside_linker);
    }
    packages::install_missing(&[("llvm-strip", "llvm")])?;
    Ok("llvm-strip".into())
}

/// Finds a linker without building one.
pub(crate) fn find(toolchain: &Toolchain) -> Option<PathBuf> {
    let built = tools::folder().join("bin/bpf-linker");
    [Some(built), which("bpf-linker")]
        .into_iter()
        .flatten()
        .find(|path| fs::read(path).is_ok_and(|binary| llvm_major(&binary) == Some(toolchain.llvm)))
}

/// The LLVM a linker carries: in its needed library (`libLLVM.so.22.1`) or, linked statically, in
/// the producer string of LLVM's bitcode writer (`LLVM22.1.8`). It has no flag that prints it.
fn llvm_major(binary: &[u8]) -> Option<u32> {
    binary
        .windows(4)
        .enumerate()
        .filter(|(_, window)| window == b"LLVM")
        .find_map(|(at, _)| {
            let rest = &binary[at + 4..];
            let rest = rest
                .strip_prefix(b".so.")
                .or_else(|| rest.strip_prefix(b"-"))
                .unwrap_or(rest);
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let dotted =
                matches!(rest.get(digits..digits + 2), Some([b'.', next]) if next.is_ascii_digit());
            if !(2..=3).contains(&digits) || !dotted {
                return None;
            }
            std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llvm_of_a_linker_is_read_from_its_library_or_its_producer_string() {
        assert_eq!(llvm_major(b"\0libLLVM.so.22.1\0libgcc_s.so.1\0"), Some(22));
        assert_eq!(llvm_major(b"\0libLLVM-19.1\0"), Some(19));
        assert_eq!(llvm_major(b"LLVM ERROR: \0LLVM23.1.0-rust\0"), Some(23));
        assert_eq!(
            llvm_major(b"only LLVM 22 builds, LLVM2 and LLVM-22\0"),
            None
        );
    }
}

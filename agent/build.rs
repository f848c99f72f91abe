//! Puts the eBPF object where the agent embeds it from: `OUT_DIR/epguard-ebpf`, empty if it was not built. What only a debugger reads
//! is left out, four fifths of it; the kernel's own description of types and lines (BTF) stays.

use object::build::elf::{Builder, SectionData};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn main() {
    let object = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .join("../target/bpf/epguard-ebpf");
    if !object.exists() {
        leave_placeholder(&object);
    }
    let bytes = fs::read(&object).unwrap_or_default();
    let bytes = if bytes.is_empty() {
        println!(
            "cargo:warning=built without the eBPF object (it can load nothing); run `cargo xtask build`"
        );
        bytes
    } else {
        without_debug_information(&bytes).expect("target/bpf/epguard-ebpf is not an ELF object")
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("epguard-ebpf"), bytes).expect("cannot write to OUT_DIR");
    println!("cargo:rerun-if-changed={}", object.display());
}

fn without_debug_information(object: &[u8]) -> object::build::Result<Vec<u8>> {
    let mut builder = Builder::read(object)?;
    for section in &mut builder.sections {
        let name = section.name.strip_prefix(b".rel").unwrap_or(&section.name);
        section.delete |= name.starts_with(b".debug_");
    }
    // Their symbols.
    builder.delete_orphans();
    // LLVM writes one table of strings for symbols and sections; the builder needs two.
    let names = builder.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut rest = Vec::new();
    builder.write(&mut rest)?;
    Ok(rest)
}

/// Cargo reruns a build script for ever while a file it watches is missing. An old, empty one is
/// watched for nothing until `cargo xtask build` replaces it.
fn leave_placeholder(object: &Path) {
    let _ = fs::create_dir_all(object.parent().expect("the object has a folder"));
    if let Ok(file) = File::create(object) {
        let _ = file.set_modified(SystemTime::UNIX_EPOCH);
    }
}

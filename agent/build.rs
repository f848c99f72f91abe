//! Puts the eBPF object that this crate embeds where it finds it: `OUT_DIR/epguard-ebpf`, empty if
//! it was not built. The lab, which embeds its neighbours, has the same build script.

use std::env::var_os;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn main() {
    let variable = |name| var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let is_agent = variable("CARGO_PKG_NAME") == "epguard";
    let name = if is_agent {
        "epguard-ebpf"
    } else {
        "epguard-neighbour"
    };
    let object = PathBuf::from(variable("CARGO_MANIFEST_DIR"))
        .join("../target/bpf")
        .join(name);
    if !object.exists() {
        leave_placeholder(&object);
    }
    let bytes = fs::read(&object).unwrap_or_default();
    if bytes.is_empty() {
        println!(
            "cargo:warning=built without {name}, so it can load none of it; run `cargo xtask build`"
        );
    }
    fs::write(PathBuf::from(variable("OUT_DIR")).join(name), bytes)
        .expect("cannot write to OUT_DIR");
    println!("cargo:rerun-if-changed={}", object.display());
}

/// Cargo reruns a build script for ever while a file it watches is missing. An old, empty one is
/// watched for nothing until `cargo xtask build` replaces it.
fn leave_placeholder(object: &Path) {
    let _ = fs::create_dir_all(object.parent().expect("the object has a folder"));
    if let Ok(file) = File::create(object) {
        let _ = file.set_modified(SystemTime::UNIX_EPOCH);
    }
}

//! Puts the neighbours' eBPF object where the lab embeds it from: `OUT_DIR/epguard-neighbour`, empty if it was not built.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn main() {
    let object = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .join("../target/bpf/epguard-neighbour");
    if !object.exists() {
        leave_placeholder(&object);
    }
    let bytes = fs::read(&object).unwrap_or_default();
    if bytes.is_empty() {
        println!(
            "cargo:warning=built without the neighbours (no story with one can be told); run `cargo xtask build`"
        );
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("epguard-neighbour"), bytes).expect("cannot write to OUT_DIR");
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

//! What people see of the maps.

use super::kernel;
use epguard::kernel::maps;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What `bpftool -j map VERB pinned` prints of a map.
pub fn bpftool(verb: &str, map: &str) -> Value {
    let pin = maps::directory(Path::new(kernel::PIN_DIR)).join(map);
    let mut command = Command::new("bpftool");
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.args(["-j", "map", verb, "pinned"]).arg(pin);
    let output = command.output().expect("bpftool, which `cargo xtask setup` installs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "bpftool map {verb} {map}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON from bpftool")
}

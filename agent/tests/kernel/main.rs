//! The programs, the scanner and the process on a real kernel. As root, `cargo xtask test` runs each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod bad_input;
#[allow(dead_code, reason = "the lab uses the rest")]
#[path = "../../../lab/src/agent.rs"]
mod launcher;
mod lifecycle;
mod packet_socket;
mod programs;

/// A kubeconfig of a cluster at a port of loopback where nothing listens.
const UNREACHABLE: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
  "users": [{"name": "c", "user": {}}],
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}"#;

/// The release of the kernel that runs: `(6, 1)` of `6.1.0-9-amd64`. Some tests expect something else of an older one.
fn series() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

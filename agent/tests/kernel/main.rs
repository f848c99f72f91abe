//! The programs, the scanner and the process on a real kernel. As root, `cargo xtask test` runs each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod bad_input;
#[allow(dead_code, reason = "the lab uses the rest")]
#[path = "../../../lab/src/agent.rs"]
mod launcher;
mod lifecycle;
mod packet_socket;
mod programs;
mod release;

/// A kubeconfig of a cluster at a port of loopback where nothing listens.
const UNREACHABLE: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
  "users": [{"name": "c", "user": {}}],
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}"#;

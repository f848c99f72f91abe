//! The benchmarks of `cargo xtask bench`, but for `tenants`: runs the one that is named, and prints
//! its tables.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod bpf;
mod node;
mod packet;
mod programs;
mod rollout;
mod scale;
mod socket_lb;
mod stack;
#[path = "../tests/agent/world.rs"]
mod world;

use epguard_lab::figures;
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    // Cargo adds `--bench`.
    let name = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let tables = match name.map(String::as_str) {
        Some("packet") => packet::tables(quick),
        Some("node") => node::tables(quick),
        Some("stack") => stack::tables(quick),
        Some("rollout") => rollout::tables(quick),
        Some("scale") => scale::tables(quick),
        Some("socket-lb") => socket_lb::tables(quick),
        _ => panic!("name a benchmark of `cargo xtask bench --help`"),
    };
    figures::print(&tables)
}

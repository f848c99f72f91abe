//! `cargo xtask bench fleet-view`: how long `kubectl epguard status` takes for all nodes of a cluster.
//!
//! An API server on this machine's loopback, with TLS, runs canned commands in the agents' pods: the time is that of the
//! plugin, of its connections and of this server. `NODES=5000` and `ROUNDS=9` take other sizes.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/rootless/fleet/world.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod world;

use comfy_table::{Table, presets::NOTHING};
use epguard::shared::status::Status;
use epguard_lab::api::{Exec, Run};
use std::time::{Duration, Instant};
use world::{World, condition, node_of, status};

/// Pods of a node, each with an interface in the status.
const PODS: usize = 30;
/// What a connection of the plugin to its node is given, in seconds.
const TIMEOUT: &str = "2";

fn main() {
    let nodes = number("NODES", 500);
    let rounds = number("ROUNDS", 5);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let _context = runtime.enter();
    let world = World::empty("bench");
    for number in 0..nodes {
        world.node(&format!("worker-{number}"));
        world.agent(&format!("worker-{number}"));
    }
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_header(["kubectl epguard status", "median", "all"]);
    for (what, answer, code) in [
        (format!("{nodes} nodes"), canned as fn(&Exec) -> Run, 0),
        (
            format!("{nodes} nodes, one hangs, --timeout {TIMEOUT}"),
            one_hangs,
            2,
        ),
        (
            format!("{nodes} nodes, half hang, --timeout {TIMEOUT}"),
            half_hang,
            2,
        ),
    ] {
        world.server.execs().answer(answer);
        let mut took: Vec<Duration> = (0..rounds).map(|_| round(&world, code)).collect();
        took.sort_unstable();
        let all: Vec<String> = took.iter().map(|took| seconds(*took)).collect();
        table.add_row([what, seconds(took[took.len() / 2]), all.join(", ")]);
    }
    println!("{table}");
}

fn round(world: &World, code: i32) -> Duration {
    let begun = Instant::now();
    let output = world.command(&["status", "--timeout", TIMEOUT]).output().unwrap();
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{text}");
    took
}

/// A status of usual size.
fn canned(exec: &Exec) -> Run {
    let mut status: Status = status(node_of(exec));
    let interface = status.interfaces[0].clone();
    status.interfaces.extend(std::iter::repeat_n(interface, PODS));
    condition(status)
}

fn one_hangs(exec: &Exec) -> Run {
    if node_of(exec) == "worker-7" {
        Run::Hangs
    } else {
        canned(exec)
    }
}

fn half_hang(exec: &Exec) -> Run {
    let odd = node_of(exec).ends_with(['1', '3', '5', '7', '9']);
    if odd { Run::Hangs } else { canned(exec) }
}

fn number(name: &str, default: usize) -> usize {
    let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(default)
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

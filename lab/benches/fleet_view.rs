//! `cargo xtask bench fleet-view`: how long `kubectl epguard status` takes for all nodes of a cluster.
//!
//! An API server on this machine's loopback, with TLS, runs canned commands in the agents' pods: the time is that of the
//! plugin, of its connections and of this server. `NODES=5000` and `ROUNDS=9` take other sizes.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "support/mod.rs"]
mod support;
#[path = "../tests/rootless/fleet/world.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod world;

use epguard::shared::status::Status;
use epguard_lab::api::{Exec, Run};
use std::time::{Duration, Instant};
use world::{World, condition, node_of, status};

/// Pods of a node, each with an interface in the status.
const PODS: usize = 30;

fn main() {
    let nodes: usize = support::number("NODES", 500);
    let rounds = support::number("ROUNDS", 5);
    let runtime = support::runtime();
    let _context = runtime.enter();
    let world = World::empty("bench");
    for number in 0..nodes {
        world.node(&format!("worker-{number}"));
        world.agent(&format!("worker-{number}"));
    }
    let rows = [
        ("", canned as fn(&Exec) -> Run, 0),
        (", one hangs, --timeout 2", one_hangs, 2),
        (", half hang, --timeout 2", half_hang, 2),
    ]
    .map(|(which, answer, code)| {
        world.server.execs().answer(answer);
        let took = (0..rounds).map(|_| round(&world, code)).collect();
        (format!("{nodes} nodes{which}"), took)
    });
    support::print(["kubectl epguard status", "median", "all"], rows);
}

fn round(world: &World, code: i32) -> Duration {
    let begun = Instant::now();
    let output = world.command(&["status", "--timeout", "2"]).output().unwrap();
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

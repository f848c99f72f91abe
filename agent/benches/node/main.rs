//! `cargo xtask bench node`: time to start on a node of 250 interfaces and to take it over, and memory of maps and programs.
//!
//! Each round is a thread with network namespace and bpffs of its own.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../../../xtask/src/bench/form.rs"]
mod form;
#[path = "../../tests/kernel/programs/kernel.rs"]
mod kernel;
mod memory;
#[allow(dead_code, reason = "packets have more use for it")]
#[path = "../packet/bpf.rs"]
mod raw;
mod start;

use form::{Comparison, Row, Table};
use start::Round;
use std::thread;

const ROUNDS: usize = 7;
const INTERFACES: usize = 250;
const EMPTY: &str = "an empty TC program, attached to both hooks of 250 interfaces";

fn main() {
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| alone(|| start::round(INTERFACES))).collect();
    let samples = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let compared = |name: &str, of| Row::new(name, "", samples(of)).compare(Comparison::with(EMPTY));
    let times = Table {
        name: "node".into(),
        title: "Start on a node of 250 interfaces".into(),
        unit: "ms".into(),
        notes: vec![
            "Attached: a link for each hook, pinned. Taken over: the programs of a second agent replace those of the first in \
             its links."
                .into(),
        ],
        rows: vec![
            Row::new(EMPTY, "", samples(|round| round.empty)),
            Row::new("epguard: programs loaded and verified", "", samples(|round| round.load)),
            compared("epguard: attached to both hooks of 250 interfaces", |round| round.attach),
            Row::new("second agent: programs loaded and verified", "", samples(|round| round.load_again)),
            compared("second agent: 250 interfaces taken over", |round| round.take_over),
        ],
    };
    let sizes = Table {
        name: "node-memory".into(),
        title: "Memory in the kernel".into(),
        unit: "KiB".into(),
        notes: vec!["As the kernel counts it (`memlock`). Once, as it does not vary.".into()],
        rows: alone(memory::rows),
    };
    form::hand_over(&[times, sizes]).unwrap();
}

/// On a thread of its own: it leaves its namespaces behind.
fn alone<T: Send>(measure: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(measure).join()).unwrap()
}

//! `cargo xtask bench scale`: what an agent costs in a cluster of 10,000 and of 100,000 pods, beside its budgets.
//!
//! The real agent beside the lab's API server, which counts requests and octets. Pods are as large as a recorded kubelet's. The
//! API server runs at a low priority: on a node it would be on another machine. `SCALE=10,000` takes one size alone.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "scale/agent.rs"]
mod agent;
#[path = "scale/cgroup.rs"]
mod cgroup;
#[path = "scale/cluster.rs"]
mod cluster;
#[path = "scale/effort.rs"]
mod effort;
#[path = "scale/events.rs"]
mod events;
#[path = "scale/fill.rs"]
mod fill;
#[path = "../../xtask/src/bench/form.rs"]
mod form;
#[path = "scale/measure.rs"]
mod measure;
#[path = "scale/objects.rs"]
mod objects;
#[path = "scale/requests.rs"]
mod requests;
#[path = "scale/rolling.rs"]
mod rolling;
#[path = "scale/rows.rs"]
mod rows;
#[path = "scale/size.rs"]
mod size;
#[path = "support/mod.rs"]
mod support;
#[path = "scale/waits.rs"]
mod waits;
#[path = "../tests/agent/world.rs"]
mod world;

use effort::Effort;
use measure::measure;
use size::{LARGE, SMALL};
use std::env;

fn main() {
    at_low_priority();
    let runtime = support::runtime();
    let _context = runtime.enter();
    let wanted = env::var("SCALE").unwrap_or_default();
    let effort = if form::is_quick() { Effort::quick() } else { Effort::full() };
    let sizes = [SMALL, LARGE].into_iter().filter(|size| size.name.starts_with(&wanted));
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for size in sizes {
        let (rows, more) = measure(size, &effort);
        all.push(rows);
        notes.extend(more);
    }
    form::hand_over(&rows::tables(&all, &notes)).unwrap();
}

/// For this process with the API server, and not for the agent.
fn at_low_priority() {
    // SAFETY: no pointers. It has no other threads yet; those inherit the priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
}

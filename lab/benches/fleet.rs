//! `cargo xtask bench fleet`: what all agents of a cluster do to the API server at once, and whether that ends.
//!
//! ```text
//! scenes -> store -> API server without sockets -> network (seats, link, faults; meter) -> agents
//! ```
//!
//! Each agent has the real watches, confirmations, second opinions, state and lease, and no datapath. The clock is virtual: the
//! processors of this machine cost no time, and what the API server can bear is a model (`capacity`). `AGENTS=1000` and
//! `PODS=10000` take other sizes, `SEED=2` other random numbers.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "fleet/agent.rs"]
mod agent;
#[path = "fleet/answer.rs"]
mod answer;
#[path = "fleet/asked.rs"]
mod asked;
#[path = "fleet/capacity.rs"]
mod capacity;
#[path = "fleet/churn.rs"]
mod churn;
#[path = "fleet/clock.rs"]
mod clock;
#[path = "fleet/cluster.rs"]
mod cluster;
#[path = "scale/fill.rs"]
mod fill;
#[path = "../../xtask/src/bench/form.rs"]
mod form;
#[path = "fleet/lapse.rs"]
mod lapse;
#[path = "fleet/meter.rs"]
mod meter;
#[path = "fleet/network.rs"]
mod network;
#[path = "scale/objects.rs"]
#[allow(dead_code, reason = "the benchmark of scale uses the rest")]
mod objects;
#[path = "fleet/rows.rs"]
mod rows;
#[path = "fleet/scenes.rs"]
mod scenes;
#[path = "scale/size.rs"]
#[allow(dead_code, reason = "the benchmark of scale uses the rest")]
mod size;
#[path = "support/mod.rs"]
mod support;

use cluster::Cluster;
use size::{BIG, Size};
use support::number;
use tokio::runtime::Builder;

/// Pods that a node has IPs for.
const IPS: u32 = 250;

fn main() {
    fastrand::seed(number("SEED", 1));
    let agents = number("AGENTS", if form::is_quick() { 50 } else { 200 });
    let pods = number("PODS", if form::is_quick() { 6_000 } else { 20_000 });
    assert!(pods > BIG, "PODS={pods}: one Service alone has {BIG}");
    let numbers = pods + BIG + 200;
    let least = numbers / IPS + 1;
    assert!(least <= agents, "AGENTS={agents}: PODS={pods} need {least}");
    let size = Size {
        name: "",
        pods,
        services: pods / 10,
        nodes: agents,
    };
    // The clock passes as soon as nothing is left to do.
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let tables = runtime.block_on(async {
        clock::begin();
        let mut cluster = Cluster::new(size);
        let played = scenes::play(&mut cluster).await;
        rows::tables(size, &played)
    });
    form::hand_over(&tables).unwrap();
}

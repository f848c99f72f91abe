//! `cargo xtask bench stack`: traffic through a node with epguard, and with what people use instead, beside the same node without.
//!
//! A client pod uses a Service whose endpoint is another pod of the node. kube-proxy's rules and conntrack are there in each
//! setup. The stale IPs are not those of the measured traffic. `ROUNDS=3` is quicker; `ONLY=pairs` and `ONLY=absorb` measure a part.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "stack/absorb.rs"]
mod absorb;
#[path = "stack/bed.rs"]
mod bed;
#[path = "stack/epguard.rs"]
mod epguard;
#[path = "stack/filters.rs"]
mod filters;
#[path = "../../xtask/src/bench/form.rs"]
mod form;
#[path = "stack/generator.rs"]
mod generator;
#[path = "stack/loads.rs"]
mod loads;
#[path = "stack/pairs.rs"]
mod pairs;
#[path = "stack/setup.rs"]
mod setup;
#[path = "stack/stale.rs"]
mod stale;
#[path = "support/mod.rs"]
mod support;

fn main() {
    epguard_lab::affinity::pin_to_processor().unwrap();
    let mut stage = setup::Stage::new();
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut tables = Vec::new();
    if only != "absorb" {
        tables.extend(pairs::tables(&mut stage));
    }
    if only != "pairs" {
        tables.extend(absorb::tables(&mut stage));
    }
    form::hand_over(&tables).unwrap();
}

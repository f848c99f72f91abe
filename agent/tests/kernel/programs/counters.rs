//! COUNTERS as `bpftool` shows it.

use super::kernel;
use super::layout::dumped;
use aya::maps::{PerCpuArray, PerCpuValues};
use epguard_common::{Count, Outcome, Reason, capacity, counter};
use serde_json::{Value, json};

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_index_of_a_counter_is_32_times_its_reason_plus_its_outcome() {
    let mut datapath = kernel::load();
    let cpus = aya::util::nr_cpus().unwrap();
    let map = datapath.ebpf.map_mut("COUNTERS").unwrap();
    let mut counters: PerCpuArray<_, Count> = map.try_into().unwrap();
    let count = Count { packets: 3, bytes: 180, openings: 2 };
    let counts = PerCpuValues::try_from(vec![count; cpus]).unwrap();
    let index = counter(Reason::Reused, Outcome::Observed);
    counters.set(index, counts, 0).unwrap();
    let value = json!({"packets": 3, "bytes": 180, "openings": 2});
    let values: Vec<Value> = (0..cpus).map(|cpu| json!({"cpu": cpu, "value": value})).collect();
    let dumped = dumped("COUNTERS");
    assert_eq!(dumped[2 * 32 + 1], json!({"key": 65, "values": values}));
    assert_eq!(dumped.len(), capacity::COUNTERS);
}

//! What the maps cost.

use super::layout::bpftool;
use super::*;
use aya::maps::HashMap;
use epguard::kernel::maps;

/// Everything that the programs can ever lock, with OWNERS full.
const BUDGET_BYTES: u64 = 64 << 20;
/// Right after loading, on a node where nothing is suspect.
const IDLE_BUDGET_BYTES: u64 = 36 << 20;
/// What is allocated at load: all but OWNERS.
const FIXED_BUDGET_BYTES: u64 = 32 << 20;

fn memory() -> u64 {
    maps::NAMES.map(memory_of).iter().sum()
}

fn memory_of(map: &str) -> u64 {
    let bytes = bpftool("show", map)["bytes_memlock"].as_u64();
    bytes.expect("bytes_memlock")
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_maps_stay_within_their_memory_even_when_full() {
    let mut datapath = kernel::load();
    let idle = memory();
    assert!(idle < IDLE_BUDGET_BYTES, "{idle} bytes when loaded");
    let fixed = idle - memory_of("OWNERS");
    assert!(fixed < FIXED_BUDGET_BYTES, "{fixed} bytes without OWNERS");
    println!("{idle} bytes when loaded, {fixed} without OWNERS");
    let map = datapath.ebpf.map_mut("OWNERS").unwrap();
    let mut owners: HashMap<_, Addr, Owner> = map.try_into().unwrap();
    for ip in 0..u32::try_from(capacity::OWNERS).unwrap() {
        owners
            .insert(Addr::from_v4_word(ip), Owner::default(), 0)
            .unwrap();
    }
    let beyond = owners.insert(Addr::v4([255; 4]), Owner::default(), 0);
    assert!(beyond.is_err(), "OWNERS takes no more than its capacity");
    let full = memory();
    assert!(full < BUDGET_BYTES, "{full} bytes when OWNERS is full");
    assert!(full > idle, "OWNERS is allocated on demand");
    println!("{full} bytes when OWNERS is full");
}

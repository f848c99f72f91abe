//! KiB of maps and programs.

use crate::form::Row;
use crate::kernel;
use aya::maps::HashMap;
use epguard::kernel::maps;
use epguard_common::{Addr, Owner};
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::PathBuf;

/// Endpoints of a large cluster.
const OWNERS: u32 = 100_000;

pub fn rows() -> Vec<Row> {
    let mut datapath = kernel::load();
    let row = |name: String, bytes: u64| {
        let kib = f64::from(u32::try_from(bytes / 1_024).unwrap());
        Row::new(name, "", vec![kib])
    };
    let started = all_maps();
    let programs = datapath.ebpf.programs().filter_map(|(_, program)| program.fd().ok());
    let programs: u64 = programs.map(|program| memlock(program.as_fd())).sum();
    let mut owners: HashMap<_, Addr, Owner> = datapath.ebpf.map_mut("OWNERS").unwrap().try_into().unwrap();
    for ip in 0..OWNERS {
        owners.insert(Addr::from_v4_word(ip), Owner::default(), 0).unwrap();
    }
    let mut rows = vec![
        row("programs at interfaces".into(), programs),
        row("maps, after the start".into(), started),
        row("maps, with 100,000 endpoint IPs".into(), all_maps()),
    ];
    let mut largest: Vec<(u64, &str)> = maps::NAMES.iter().map(|name| (memory_of(name), *name)).collect();
    largest.sort_unstable();
    let largest = largest.into_iter().rev().take(4);
    rows.extend(largest.map(|(bytes, name)| row(format!("of these, {name}"), bytes)));
    rows
}

fn all_maps() -> u64 {
    maps::NAMES.iter().map(|name| memory_of(name)).sum()
}

fn memory_of(name: &str) -> u64 {
    let pins = PathBuf::from(kernel::PIN_DIR);
    let map = maps::open(&pins, name).unwrap();
    memlock(map.fd().as_fd())
}

/// Bytes, from the `memlock` of an open map or program.
fn memlock(object: BorrowedFd<'_>) -> u64 {
    let shown = fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix("memlock:"));
    line.unwrap().trim().parse().unwrap()
}

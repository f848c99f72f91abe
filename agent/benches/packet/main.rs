//! `cargo xtask bench packet`: nanoseconds of a packet in each program, by program test runs, beside empty programs and xdp-filter.
//!
//! All rows take turns in each round. A sample is the least of a few test runs, each beside one of an empty program: their ratio
//! holds while other work slows the machine down.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod bare;
mod bpf;
mod case;
#[path = "../../tests/kernel/programs/counted.rs"]
mod counted;
#[path = "../../../xtask/src/bench/form.rs"]
mod form;
#[path = "../../tests/kernel/programs/frames.rs"]
mod frames;
#[path = "../../tests/kernel/programs/kernel.rs"]
mod kernel;
mod measure;
mod node;
#[path = "../../tests/kernel/programs/rig.rs"]
mod rig;
#[path = "../../tests/kernel/programs/tracked.rs"]
mod tracked;
#[path = "../../tests/kernel/programs/wire.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod wire;
#[path = "../../tests/kernel/programs/world.rs"]
mod world;
mod xdp_filter;

use case::{CASES, Case};
use form::{Comparison, Row, Table};
use measure::{Bench, Entry};
use node::Family;

/// How many packets of a row go to different destinations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All to one: everything that they need is in the processor's caches.
    Hot,
    /// Each to the next one of a pseudo-random sequence.
    Random,
}

fn main() {
    let (rounds, runs) = if form::is_quick() { (7, 3) } else { (21, 5) };
    let modes = [Mode::Hot, Mode::Random];
    node::enter();
    let mut bench = Bench::new(runs);
    let mut entries: Vec<Entry> = CASES
        .iter()
        .flat_map(|case| [(case, Family::V4), (case, Family::V6)])
        .flat_map(|(case, family)| modes.iter().map(move |mode| (case, family, *mode)))
        .filter(|(case, _, mode)| case.is_in(*mode))
        .map(|(case, family, mode)| bench.entry(case, family, mode))
        .collect();
    for _ in 0..rounds {
        for entry in &mut entries {
            bench.sample(entry);
        }
    }
    let table = |mode, name: &str, title: &str, notes: &[&str]| Table {
        name: name.into(),
        title: title.into(),
        unit: "ns".into(),
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
        rows: entries.iter().filter(|entry| entry.mode == mode).map(row).collect(),
    };
    let tables = [
        table(
            Mode::Hot,
            "packet",
            "A packet to one destination",
            &[
                "1,000 suspects, Services and denials of each IP version; where named, as many orphan IPs. A test run has no conntrack \
             entry: that of the rows with both hooks lies in a map. The contradictory one is read from the kernel's memory.",
            ],
        ),
        table(
            Mode::Random,
            "packet-random",
            "Packets to random destinations",
            &[
                "Destinations: 65,536 that nothing is wrong with, or all of the 1,000. A program of the benchmark writes the next \
               destination and calls the measured one. Its own time is measured with an empty program behind it, and subtracted.",
            ],
        ),
    ];
    form::hand_over(&tables).unwrap();
}

fn row(entry: &Entry) -> Row {
    let Entry { case, family, .. } = entry;
    let series = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let mut row = Row::new(case.name, series, entry.samples.clone());
    if entry.samples.is_empty() {
        row.missing = Some("xdp-filter is not installed".into());
    }
    row.compare = compare(case, *family, entry.mode);
    if let Some(first) = row.compare.first_mut() {
        first.ratios = Some(entry.ratios.clone());
    }
    row
}

fn compare(case: &Case, family: Family, mode: Mode) -> Vec<Comparison> {
    let of_family = |most: [f64; 2]| most[usize::from(family == Family::V6)];
    let with = |peer: &str, at_most: Option<f64>| Comparison {
        at_most: at_most.filter(|_| mode == Mode::Hot),
        ..Comparison::with(peer)
    };
    let empty = case.peer.map(|peer| with(peer, case.at_most.map(of_family)));
    let second = case.not_above.map(|peer| with(peer, Some(1.0)));
    empty.into_iter().chain(second).collect()
}

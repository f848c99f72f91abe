//! `cargo xtask bench`: cost of epguard's hooks around a socket load balancer for one call to a Service.
//!
//! A pod calls another pod of its node, and a server of its own, the cheapest call that there is. The lab's load balancer
//! translates the Service's IP. Each row has a node, programs and maps of its own; all rows take turns, some ten times a
//! second. `SECONDS=20` is quicker.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "socket_lb/calls.rs"]
mod calls;
#[path = "socket_lb/epguard.rs"]
mod epguard;
#[path = "socket_lb/row.rs"]
mod row;

use calls::{COSTS, NAMES};
use comfy_table::{Table, presets::NOTHING};
use epguard::{Caller, Denials};
use row::{Beside, Row};
use std::time::{Duration, Instant};

/// The row that the others are compared with.
const BASE: usize = 1;
const ROWS: [(&str, Beside); 7] = [
    ("no load balancer", Beside::Nothing),
    ("load balancer, without epguard", Beside::LoadBalancer),
    (
        "epguard at sockets, nothing denied",
        Beside::Sockets(Denials::None, Caller::Pod),
    ),
    (
        "epguard at sockets, 1,000 denials",
        Beside::Sockets(Denials::Many, Caller::Pod),
    ),
    (
        "the same, a process on the node",
        Beside::Sockets(Denials::Many, Caller::Node),
    ),
    (
        "and at interfaces, nothing denied",
        Beside::Everything(Denials::None),
    ),
    (
        "and at interfaces, 1,000 denials",
        Beside::Everything(Denials::Many),
    ),
];

fn main() {
    let seconds = std::env::var("SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
    let rows = ROWS.map(|(_, beside)| Row::new(beside));
    let mut rounds: Vec<[[f64; COSTS]; ROWS.len()]> = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        rounds.push(rows.each_ref().map(Row::round));
    }
    println!("{} rounds, nanoseconds for each call\n", rounds.len());
    for (number, what) in NAMES.into_iter().enumerate() {
        println!("{}\n", table(what, &rounds, number));
    }
}

fn table(what: &str, rounds: &[[[f64; COSTS]; ROWS.len()]], number: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        what,
        "MEDIAN",
        "MINIMUM",
        "RATIO OF MEDIANS",
        "OF MINIMA",
        "BY ROUND",
    ]);
    let of = |row: usize| sorted(rounds.iter().map(|round| round[row][number]));
    let base = of(BASE);
    for (row, (name, _)) in ROWS.iter().enumerate() {
        let cost = of(row);
        let by_round = sorted(
            rounds
                .iter()
                .map(|round| round[row][number] / round[BASE][number]),
        );
        table.add_row([
            (*name).to_owned(),
            format!("{:.0}", median(&cost)),
            format!("{:.0}", cost[0]),
            format!("{:.3}", median(&cost) / median(&base)),
            format!("{:.3}", cost[0] / base[0]),
            format!("{:.3}", median(&by_round)),
        ]);
    }
    table
}

fn sorted(of: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = of.collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

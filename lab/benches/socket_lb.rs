//! `cargo xtask bench socket-lb`: cost of epguard's hooks around a socket load balancer for one call to a Service.
//!
//! A pod calls another pod of its node, and a server of its own, the cheapest call that there is. The lab's load balancer
//! translates the Service's IP. Each row has a node, programs and maps of its own; all rows take turns, some ten times a
//! second. `SECONDS=20` is quicker.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "socket_lb/calls.rs"]
mod calls;
#[path = "socket_lb/epguard.rs"]
mod epguard;
#[path = "../../xtask/src/bench/form.rs"]
mod form;
#[path = "socket_lb/row.rs"]
mod row;
#[path = "support/mod.rs"]
mod support;

use calls::{COSTS, NAMES};
use epguard::Denials;
use form::{Comparison, Table};
use row::Beside::{self, Everything, LoadBalancer, Nothing, Sockets};
use row::Row;
use std::time::{Duration, Instant};

/// The row that the others are compared with.
const BASE: usize = 1;
const ROWS: [(&str, Beside); 6] = [
    ("no load balancer", Nothing),
    ("load balancer, without epguard", LoadBalancer),
    ("epguard at sockets, nothing denied", Sockets(Denials::None)),
    ("epguard at sockets, 1,000 denials", Sockets(Denials::Many)),
    ("and at interfaces, nothing denied", Everything(Denials::None)),
    ("and at interfaces, 1,000 denials", Everything(Denials::Many)),
];

fn main() {
    let seconds = support::number("SECONDS", 60);
    let rows = ROWS.map(|(_, beside)| Row::new(beside));
    let mut rounds: Vec<[[f64; COSTS]; ROWS.len()]> = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        rounds.push(rows.each_ref().map(Row::round));
    }
    let tables: Vec<Table> = (0..COSTS).map(|number| table(&rounds, number)).collect();
    form::hand_over(&tables).unwrap();
}

/// The table of a call.
fn table(rounds: &[[[f64; COSTS]; ROWS.len()]], number: usize) -> Table {
    let (base, _) = ROWS[BASE];
    let row = |(row, (name, _)): (usize, &(&str, Beside))| {
        let samples = rounds.iter().map(|round| round[row][number]).collect();
        let row = form::Row::new(*name, "", samples);
        if *name == base { row } else { row.compare(Comparison::with(base)) }
    };
    Table {
        name: format!("socket-lb-{}", number + 1),
        title: NAMES[number].to_owned(),
        unit: "ns".to_owned(),
        notes: vec![format!("{} rounds.", rounds.len())],
        rows: ROWS.iter().enumerate().map(row).collect(),
    }
}

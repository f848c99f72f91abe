//! The setups in turns, each in pairs with the node without it: A B B A.

use super::filters::Filter;
use super::form::{Comparison, Row, Table, is_quick};
use super::loads::Load;
use super::setup::Setup::{self, Active};
use super::setup::Stage;
use super::support::number;
use epguard_common::Mode;
use std::time::Duration;

/// The row that the others are compared with.
const WITHOUT: &str = "without epguard";
const SETUPS: [(&str, Setup, bool); 5] = [
    ("epguard, idle", Setup::Idle, false),
    ("epguard, observe, 2,000 stale IPs", Active(Mode::Observe), true),
    ("epguard, enforce, 2,000 stale IPs", Active(Mode::Enforce), true),
    ("nftables set in prerouting, same IPs", Setup::Filter(Filter::Nftables), false),
    ("ipset in prerouting, same IPs", Setup::Filter(Filter::Ipset), false),
];
/// Rates by load.
type Rates = [f64; Load::ALL.len()];

/// A table for each load.
pub(crate) fn tables(stage: &mut Stage) -> Vec<Table> {
    let rounds = number("ROUNDS", if is_quick() { 3 } else { 40 });
    // By setup and round: without, with, with, without.
    let mut seen = SETUPS.map(|_| Vec::<[Rates; 4]>::new());
    for round in 0..rounds {
        if round % 10 == 0 {
            eprintln!("stack: {round} of {rounds} rounds");
        }
        for ((_, setup, _), seen) in SETUPS.iter().zip(&mut seen) {
            let turns = [Setup::Nothing, *setup, *setup, Setup::Nothing];
            seen.push(turns.map(|setup| {
                stage.set(setup);
                Load::ALL.map(|load| load.rate(&stage.bed, Duration::from_millis(30)))
            }));
        }
    }
    stage.set(Setup::Nothing);
    let loads = Load::ALL.into_iter().enumerate();
    loads.map(|(number, load)| table(load, number, &seen)).collect()
}

fn table(load: Load, number: usize, seen: &[Vec<[Rates; 4]>]) -> Table {
    let (name, title, unit) = match load {
        Load::Stream => ("stack-stream", "TCP throughput", "Mbit/s"),
        Load::Datagrams => ("stack-datagrams", "UDP datagrams of 18 octets", "1/s"),
        Load::Requests => {
            ("stack-requests", "Requests and responses of an octet on one TCP connection", "1/s")
        }
        Load::Connections => {
            ("stack-connections", "TCP connections, each with a request and a response", "1/s")
        }
    };
    let mean =
        |turns: &[Rates; 4], pair: [usize; 2]| pair.map(|turn| turns[turn][number]).iter().sum::<f64>() / 2.0;
    let without = seen.iter().flatten().map(|turns| mean(turns, [0, 3]));
    let mut rows = vec![Row::new(WITHOUT, "", without.collect())];
    for ((name, _, limited), rounds) in SETUPS.into_iter().zip(seen) {
        let with = rounds.iter().map(|turns| mean(turns, [1, 2])).collect();
        let ratios = rounds.iter().map(|turns| mean(turns, [1, 2]) / mean(turns, [0, 3]));
        rows.push(Row::new(name, "", with).compare(Comparison {
            ratios: Some(ratios.collect()),
            at_least: limited.then_some(0.99),
            low_at_least: limited.then_some(0.97),
            ..Comparison::with(WITHOUT)
        }));
    }
    Table {
        name: name.to_owned(),
        title: format!("{title}, for each second of one processor"),
        unit: unit.to_owned(),
        notes: Vec::new(),
        rows,
    }
}

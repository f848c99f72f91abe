//! The form in which a benchmark passes its samples to `cargo xtask bench`. The benchmarks include this file, too.
//!
//! `hand_over` writes JSON, a list of tables, to the file that `EPGUARD_BENCH_JSON` names. Without it, a person has started the
//! benchmark by hand, and it prints a line for each row.
#![allow(dead_code, reason = "benchmarks make tables, and cargo xtask reads them")]

use serde::{Deserialize, Serialize};
use std::{env, fs, io};

/// Names the file for the tables.
pub(crate) const FILE: &str = "EPGUARD_BENCH_JSON";

/// If set, a benchmark takes fewer or shorter samples.
pub(crate) const QUICK: &str = "EPGUARD_BENCH_QUICK";

/// Rows that one run measured in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Unique among all benchmarks, of lower-case letters, digits and `-`: names its file.
    pub(crate) name: String,
    /// A line for people: what was measured.
    pub(crate) title: String,
    /// Of all samples: `ns`, `Mbit/s`.
    pub(crate) unit: String,
    /// Sentences below the table.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Rows of one name in several series, such as `IPv4` and `IPv6`, stand together. Empty: the table has one series.
    #[serde(default)]
    pub(crate) series: String,
    /// At least 7 where time permits, in the order of the rounds.
    pub(crate) samples: Vec<f64>,
    /// Why there are no samples: `xdp-filter is not installed`.
    #[serde(default)]
    pub(crate) missing: Option<String>,
    /// Comparisons with other rows. Tables show the first one beside the row.
    #[serde(default)]
    pub(crate) compare: Vec<Comparison>,
}

/// A row's ratio to a peer's, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Name of a row, of the same series or of none.
    pub(crate) peer: String,
    /// One for each pair, if not simply the row's sample divided by the peer's of the same round.
    #[serde(default)]
    pub(crate) ratios: Option<Vec<f64>>,
    /// Limits of the median ratio.
    #[serde(default)]
    pub(crate) at_most: Option<f64>,
    #[serde(default)]
    pub(crate) at_least: Option<f64>,
    /// Limit of the lower bound of the median's 95 % interval.
    #[serde(default)]
    pub(crate) low_at_least: Option<f64>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, series: impl Into<String>, samples: Vec<f64>) -> Self {
        Self { name: name.into(), series: series.into(), samples, missing: None, compare: Vec::new() }
    }

    pub(crate) fn missing(
        name: impl Into<String>,
        series: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { missing: Some(why.into()), ..Self::new(name, series, Vec::new()) }
    }

    #[must_use]
    pub(crate) fn compare(mut self, with: Comparison) -> Self {
        self.compare.push(with);
        self
    }
}

impl Comparison {
    /// Without limits.
    pub(crate) fn with(peer: impl Into<String>) -> Self {
        Self { peer: peer.into(), ratios: None, at_most: None, at_least: None, low_at_least: None }
    }
}

/// Whether [`QUICK`] is set.
pub(crate) fn is_quick() -> bool {
    env::var_os(QUICK).is_some()
}

/// Writes the tables to the file of `cargo xtask bench`, or prints them.
pub(crate) fn hand_over(tables: &[Table]) -> io::Result<()> {
    if let Some(file) = env::var_os(FILE) {
        return fs::write(file, serde_json::to_vec(tables)?);
    }
    for table in tables {
        println!("{} ({})", table.title, table.unit);
        for row in &table.rows {
            let samples: Vec<String> = row.samples.iter().map(|sample| format!("{sample:.4}")).collect();
            let missing = row.missing.as_deref().unwrap_or_default();
            println!("{:<60} {:<12} {}{missing}", row.name, row.series, samples.join(" "));
        }
    }
    Ok(())
}

//! Figures of a benchmark: rows that were measured in turns, each beside its peer.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fmt};

use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;
use serde_json::json;

/// Rows of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What was measured.
    pub title: String,
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
}

/// One thing that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    name: String,
    /// Of all samples: `ns`, `Mbit/s`.
    unit: &'static str,
    /// In the order of the rounds. None if it cannot be measured here.
    samples: Vec<f64>,
    /// The row of the same table that this one is compared with, round by round.
    peer: Option<&'static str>,
    limit: Option<Limit>,
}

/// Of the median ratio to the peer; of the median itself where there is no peer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Row {
    /// A row without a peer or a limit.
    pub fn new(name: impl Into<String>, unit: &'static str, samples: impl Into<Vec<f64>>) -> Self {
        Self { name: name.into(), unit, samples: samples.into(), peer: None, limit: None }
    }

    /// Compares it with the row of this name, unless it is this row.
    pub fn beside(mut self, peer: &'static str) -> Self {
        self.peer = Some(peer).filter(|peer| *peer != self.name);
        self
    }

    /// Limits the median.
    pub fn at_most(self, limit: impl Into<Option<f64>>) -> Self {
        Self { limit: limit.into().map(Limit::AtMost), ..self }
    }

    /// Limits the median.
    pub fn at_least(self, limit: impl Into<Option<f64>>) -> Self {
        Self { limit: limit.into().map(Limit::AtLeast), ..self }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }

    fn cells(&self, row: &Row) -> [String; 6] {
        let value = |percent| percentile(&row.samples, percent);
        let ratios = self.ratios(row);
        [
            format!("{}, {}", row.name, row.unit),
            value(0).map(figure).unwrap_or_default(),
            value(50).map_or_else(|| "not measured".to_owned(), figure),
            percentile(&ratios, 50)
                .zip(row.peer)
                .map(|(median, peer)| format!("{median:.3} to {peer}"))
                .unwrap_or_default(),
            interval_of_median(&ratios)
                .map(|[low, high]| format!("{low:.3} to {high:.3}"))
                .unwrap_or_default(),
            row.limit.map(|limit| limit.shown(self.limited(row))).unwrap_or_default(),
        ]
    }

    /// The figure that a row's limit is for; none if it was not measured.
    fn limited(&self, row: &Row) -> Option<f64> {
        if row.peer.is_some() { percentile(&self.ratios(row), 50) } else { percentile(&row.samples, 50) }
    }

    /// The rows that miss their limits, each with the title.
    fn missed(&self) -> impl Iterator<Item = String> {
        let is_missed = |row: &&Row| row.limit.is_some_and(|limit| !limit.holds(self.limited(row)));
        self.rows.iter().filter(is_missed).map(|row| format!("{}: {}", self.title, row.name))
    }

    /// To the sample of the peer in the same round.
    fn ratios(&self, row: &Row) -> Vec<f64> {
        let peer = self.rows.iter().find(|peer| Some(peer.name.as_str()) == row.peer);
        let pairs = peer.into_iter().flat_map(|peer| row.samples.iter().zip(&peer.samples));
        pairs.map(|(sample, peer)| sample / peer).collect()
    }
}

impl Limit {
    /// True if the figure keeps to the limit, or was not measured.
    fn holds(self, figure: Option<f64>) -> bool {
        match self {
            Self::AtMost(limit) => figure.is_none_or(|figure| figure <= limit),
            Self::AtLeast(limit) => figure.is_none_or(|figure| figure >= limit),
        }
    }

    fn shown(self, figure: Option<f64>) -> String {
        let (text, limit) = match self {
            Self::AtMost(limit) => ("at most", limit),
            Self::AtLeast(limit) => ("at least", limit),
        };
        format!("{text} {limit}{}", if self.holds(figure) { "" } else { ", missed" })
    }
}

impl fmt::Display for Table {
    /// As Markdown, which terminals show as well.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = comfy_table::Table::new();
        shown.load_preset(ASCII_MARKDOWN);
        shown.set_header([self.title.as_str(), "minimum", "median", "ratio", "95 % interval", "limit"]);
        for row in &self.rows {
            shown.add_row(self.cells(row));
        }
        shown.fmt(formatter)
    }
}

/// Prints a benchmark's tables: each as a line of JSON if it was called with `--json`. Fails if it was called with `--check` and a row
/// misses its limit.
pub fn print(tables: &[Table]) -> ExitCode {
    let is_asked = |flag: &str| env::args().any(|argument| argument == flag);
    let is_json = is_asked("--json");
    for table in tables {
        let shown = if is_json { json!(table).to_string() } else { format!("\n{table}") };
        println!("{shown}");
    }
    let mut missed = tables.iter().flat_map(Table::missed).peekable();
    if !is_asked("--check") || missed.peek().is_none() {
        return ExitCode::SUCCESS;
    }
    eprintln!("beyond their limits: {}", missed.collect::<Vec<String>>().join("; "));
    ExitCode::FAILURE
}

const BETWEEN_PROGRESS: Duration = Duration::from_secs(10);

/// Measures rows in turns, so that other work of the machine disturbs all of them alike. Every other round runs backwards: the
/// machine's drift then favours no row. `measure` gets the row's index, and returns a figure for each table. The result is by
/// row, then by table, then by round.
pub fn in_turns<const TABLES: usize>(
    rounds: u32,
    rows: usize,
    mut measure: impl FnMut(usize) -> [f64; TABLES],
) -> Vec<[Vec<f64>; TABLES]> {
    let mut samples = vec![[const { Vec::new() }; TABLES]; rows];
    let begun = Instant::now();
    let mut told = begun;
    for round in 0..rounds {
        if told.elapsed() >= BETWEEN_PROGRESS {
            told = Instant::now();
            let left = begun.elapsed() / round * (rounds - round);
            eprintln!("round {round} of {rounds}, {} s left", left.as_secs());
        }
        for turn in 0..rows {
            let row = if round % 2 == 0 { turn } else { rows - 1 - turn };
            for (samples, sample) in samples[row].iter_mut().zip(measure(row)) {
                samples.push(sample);
            }
        }
    }
    samples
}

/// The value below which this share of the samples is: between two of them, as far as the share is. None without samples.
pub fn percentile(samples: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = samples.len().checked_sub(1)? * percent;
    let (below, above) = (sorted[at / 100], sorted[at.div_ceil(100)]);
    let share = u8::try_from(at % 100).unwrap_or_default();
    Some(below + (above - below) * f64::from(share) / 100.0)
}

/// Where the median of all possible samples is, 95 times of 100: between these two of the sorted ones. Whatever their
/// distribution, the number of samples below it is binomial. None without samples.
fn interval_of_median(samples: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // 1.96 standard deviations, each of them half a root of the number, on either side of the middle.
    let spread = (sorted.len().isqrt() + 1) * 98 / 100;
    let middle = sorted.len() / 2;
    Some([sorted[middle.saturating_sub(spread)], sorted[(middle + spread).min(last)]])
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value.abs() {
        above if above >= 99.95 => format!("{value:.0}"),
        above if above >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_median_ratio_of_the_rounds_and_a_missed_limit() {
        let mut table = Table::new("Packets");
        table.rows = vec![
            Row::new("empty", "ns", [2.0, 10.0, 2.0]).beside("empty"),
            Row::new("miss", "ns", [4.0, 10.0, 6.0]).beside("empty").at_most(1.45),
            Row::new("hit", "ns", [4.0, 10.0, 6.0]).beside("empty").at_least(1.45),
            Row::new("filter", "ns", []).beside("empty").at_most(1.45),
            Row::new("resident", "MB", [130.25]).at_most(100.0),
        ];
        let expected = "\
| Packets      | minimum | median       | ratio          | 95 % interval  | limit                |
|--------------|---------|--------------|----------------|----------------|----------------------|
| empty, ns    | 2.00    | 2.00         |                |                |                      |
| miss, ns     | 4.00    | 6.00         | 2.000 to empty | 1.000 to 3.000 | at most 1.45, missed |
| hit, ns      | 4.00    | 6.00         | 2.000 to empty | 1.000 to 3.000 | at least 1.45        |
| filter, ns   |         | not measured |                |                | at most 1.45         |
| resident, MB | 130     | 130          |                |                | at most 100, missed  |";
        assert_eq!(table.to_string(), expected);
        assert_eq!(table.missed().collect::<Vec<String>>(), ["Packets: miss", "Packets: resident"]);
    }

    #[test]
    fn rows_take_turns_and_every_other_round_runs_backwards() {
        let mut turns = Vec::new();
        let samples = in_turns(2, 3, |row| {
            turns.push(row);
            [1.0, f64::from(u8::try_from(turns.len()).unwrap())]
        });
        assert_eq!(turns, [0, 1, 2, 2, 1, 0]);
        assert_eq!(samples[1], [vec![1.0, 1.0], vec![2.0, 5.0]]);
    }

    #[test]
    fn half_of_the_samples_are_below_the_median() {
        let median = |samples: &[f64]| percentile(samples, 50);
        assert_eq!(
            [&[9.0, 1.0, 3.0][..], &[9.0, 1.0, 3.0, 5.0], &[]].map(median),
            [Some(3.0), Some(4.0), None]
        );
    }

    #[test]
    fn the_interval_of_a_median_of_a_hundred_samples_has_twenty_of_them() {
        let samples: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(interval_of_median(&samples), Some([40.0, 60.0]));
        assert_eq!(interval_of_median(&[]), None);
    }

    #[test]
    fn figures_have_three_digits_that_count() {
        let shown = [0.5, 9.99, 13.04, 99.96, 1234.5].map(figure);
        assert_eq!(shown, ["0.50", "9.99", "13.0", "100", "1234"]);
    }
}

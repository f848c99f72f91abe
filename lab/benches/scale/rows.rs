//! Rows of the tables, and their budgets.

use super::form::{Comparison, Row, Table};

/// A unit, and the table of all rows that have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Megabytes,
    Requests,
    Kilobytes,
    Milliseconds,
    Seconds,
    Share,
}

impl Unit {
    const ALL: [Self; 6] =
        [Self::Megabytes, Self::Requests, Self::Kilobytes, Self::Milliseconds, Self::Seconds, Self::Share];

    /// Name and title of the table, and what its figures count.
    fn table(self) -> [&'static str; 3] {
        match self {
            Self::Megabytes => ["scale-memory", "Memory of the agent", "MB"],
            Self::Requests => ["scale-requests", "Requests of the agent", "requests"],
            Self::Kilobytes => ["scale-octets", "Answers of the API server to the agent", "KB"],
            Self::Milliseconds => ["scale-latency", "Delays and waits", "ms"],
            Self::Seconds => ["scale-time", "Time and processor time", "s"],
            Self::Share => ["scale-processor", "Processor time of the agent", "% of a core"],
        }
    }
}

/// The rows of one size of cluster.
pub(crate) struct Rows {
    pub(crate) series: &'static str,
    rows: Vec<(Unit, Row)>,
}

impl Rows {
    pub(crate) fn new(series: &'static str) -> Self {
        Self { series, rows: Vec::new() }
    }

    /// Adds figures without a budget.
    pub(crate) fn show(&mut self, unit: Unit, name: &str, samples: impl Into<Vec<f64>>) {
        self.rows.push((unit, Row::new(name, self.series, samples.into())));
    }

    /// Adds figures with a budget.
    pub(crate) fn limit(&mut self, unit: Unit, name: &str, samples: impl Into<Vec<f64>>, budget: f64) {
        let samples = samples.into();
        let compare = Comparison {
            ratios: Some(samples.iter().map(|sample| sample / budget).collect()),
            at_most: Some(1.0),
            ..Comparison::with(format!("at most {budget}"))
        };
        let row = Row::new(name, self.series, samples).compare(compare);
        self.rows.push((unit, row));
    }

    /// Adds a row of what could not be measured.
    pub(crate) fn missing(&mut self, unit: Unit, name: &str, why: &str) {
        self.rows.push((unit, Row::missing(name, self.series, why)));
    }
}

/// The tables, one for each unit, with a column for each size.
pub(crate) fn tables(all: &[Rows], notes: &[String]) -> Vec<Table> {
    let table = |unit: Unit| {
        let [name, title, figures] = unit.table();
        let rows = all.iter().flat_map(|rows| &rows.rows);
        let rows = rows.filter(|(own, _)| *own == unit).map(|(_, row)| row.clone());
        Table {
            name: name.to_owned(),
            title: title.to_owned(),
            unit: figures.to_owned(),
            notes: notes.iter().filter_map(|note| Some(note.strip_prefix(name)?.trim().to_owned())).collect(),
            rows: rows.collect(),
        }
    };
    Unit::ALL.into_iter().map(table).collect()
}

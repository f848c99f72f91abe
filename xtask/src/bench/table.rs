//! A table of figures in Markdown, which terminals show as well.

use super::check::verdict;
use super::figures::{median, minimum};
use super::form::{Comparison, Row, Table};

impl Table {
    /// Title, rows and notes. Each series has a column of samples, minimum and median, and one of ratios.
    pub(super) fn markdown(&self) -> String {
        let series = self.series();
        let figures = if self.rows.iter().any(|row| row.samples.len() > 1) {
            "minimum / median in "
        } else {
            ""
        };
        let mut heads = vec![format!("{}, {figures}{}", self.title, self.unit)];
        let has_peers = self.rows.iter().any(|row| !row.compare.is_empty());
        for name in &series {
            heads.push((*name).to_owned());
            heads.extend(has_peers.then(|| "ratio [95 % interval]".to_owned()));
        }
        heads.extend(has_peers.then(|| "to".to_owned()));
        let mut lines = vec![line(&heads), line(&vec!["---".to_owned(); heads.len()])];
        lines.extend(
            self.names()
                .into_iter()
                .map(|name| self.line(name, &series, has_peers)),
        );
        let notes: Vec<String> = self.further().chain(self.notes.iter().cloned()).collect();
        for note in notes {
            lines.extend([String::new(), note]);
        }
        lines.join("\n")
    }

    fn line(&self, name: &str, series: &[&str], has_peers: bool) -> String {
        let row_of = |series: &str| {
            self.rows
                .iter()
                .find(|row| row.name == name && row.series == series)
        };
        let mut cells = vec![name.to_owned()];
        for row in series.iter().map(|series| row_of(series)) {
            cells.push(row.map(samples).unwrap_or_default());
            let compared = row.and_then(|row| Some(self.compared(row, row.compare.first()?)));
            cells.extend(has_peers.then(|| compared.unwrap_or_default()));
        }
        let peers = series.iter().filter_map(|series| row_of(series)?.compare.first());
        let peers = each_once(peers.map(|with| with.peer.as_str()));
        cells.extend(has_peers.then(|| peers.join("; ")));
        line(&cells)
    }

    /// `1.31 [1.29, 1.35] ≤ 1.45`; empty if one of the two was not measured.
    pub(super) fn compared(&self, row: &Row, with: &Comparison) -> String {
        let Some(ratio) = self.ratio(row, with) else {
            return String::new();
        };
        let bounds = format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high);
        let verdicts = verdict(ratio, with).into_iter();
        verdicts.fold(bounds, |cell, verdict| format!("{cell} {verdict}"))
    }

    /// Comparisons that have no column.
    fn further(&self) -> impl Iterator<Item = String> {
        self.rows.iter().flat_map(|row| {
            let further = row.compare.iter().skip(1);
            let shown = further.map(|with| (with, self.compared(row, with)));
            shown
                .filter(|(_, compared)| !compared.is_empty())
                .map(|(with, compared)| format!("{}: {compared} to {}.", row.title(), with.peer))
        })
    }

    /// Names of rows, each once, in their order.
    pub(super) fn names(&self) -> Vec<&str> {
        each_once(self.rows.iter().map(|row| row.name.as_str()))
    }

    /// Series, each once. Where a table has more than one, rows of none are in the first column.
    pub(super) fn series(&self) -> Vec<&str> {
        each_once(self.rows.iter().map(|row| row.series.as_str()))
    }
}

impl Row {
    /// Name and series.
    pub(super) fn title(&self) -> String {
        let parts = [self.name.as_str(), &self.series];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

fn samples(row: &Row) -> String {
    let figures = minimum(&row.samples).zip(median(&row.samples));
    let missing = row.missing.clone().unwrap_or_default();
    figures.map_or(missing, |(minimum, median)| match row.samples.len() {
        1 => figure(median),
        _ => format!("{} / {}", figure(minimum), figure(median)),
    })
}

/// Three digits that count.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        above if above >= 99.95 => format!("{value:.0}"),
        above if above >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::form::Better;
    use super::*;

    #[test]
    fn rows_of_a_name_stand_in_one_line_with_a_column_for_each_series() {
        let limited = |limit| Comparison {
            at_most: Some(limit),
            ..Comparison::with("empty")
        };
        let table = Table {
            name: "packet".into(),
            title: "Packets".into(),
            unit: "ns".into(),
            better: Better::Lower,
            notes: vec!["A note.".into()],
            rows: vec![
                Row::new("empty", "IPv4", vec![10.0, 12.0]),
                Row::new("empty", "IPv6", vec![10.0, 12.0]),
                Row::new("miss", "IPv4", vec![20.0, 24.0]).compare(limited(1.45)),
                Row::missing("miss", "IPv6", "not installed").compare(limited(1.65)),
            ],
        };
        let expected = "\
| Packets, minimum / median in ns | IPv4 | ratio [95 % interval] | IPv6 | ratio [95 % interval] | to |
| --- | --- | --- | --- | --- | --- |
| empty | 10.0 / 11.0 |  | 10.0 / 11.0 |  |  |
| miss | 20.0 / 22.0 | 2.000 [2.000, 2.000] > 1.45 | not installed |  | empty |

A note.";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn a_table_of_single_figures_without_peers_has_no_further_columns() {
        let table = Table {
            name: "memory".into(),
            title: "Memory".into(),
            unit: "KiB".into(),
            better: Better::Lower,
            notes: Vec::new(),
            rows: vec![Row::new("maps", "", vec![192.0])],
        };
        assert_eq!(
            table.markdown(),
            "| Memory, KiB |  |\n| --- | --- |\n| maps | 192 |"
        );
    }

    #[test]
    fn figures_have_three_digits_that_count() {
        let shown = [0.5, 9.99, 13.04, 99.96, 1234.5].map(figure);
        assert_eq!(shown, ["0.50", "9.99", "13.0", "100", "1234"]);
    }
}

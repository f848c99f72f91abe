//! A table of figures in Markdown, which terminals show as well.

use super::form::{Comparison, Row, Table};

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    median: f64,
    /// 95 % interval of the median by order statistics. The extremes where there are fewer than 6 ratios.
    low: f64,
    high: f64,
}

impl Table {
    /// Title, rows and notes. Each series has a column of samples, minimum and median, and one of ratios.
    pub(super) fn markdown(&self) -> String {
        let series = self.series();
        let figures =
            if self.rows.iter().any(|row| row.samples.len() > 1) { "minimum / median in " } else { "" };
        let mut heads = vec![format!("{}, {figures}{}", self.title, self.unit)];
        let has_peers = self.rows.iter().any(|row| !row.compare.is_empty());
        for name in &series {
            heads.push((*name).to_owned());
            heads.extend(has_peers.then(|| "ratio [95 % interval]".to_owned()));
        }
        heads.extend(has_peers.then(|| "to".to_owned()));
        let mut lines = vec![line(&heads), line(&vec!["---".to_owned(); heads.len()])];
        lines.extend(self.names().into_iter().map(|name| self.line(name, &series, has_peers)));
        let notes: Vec<String> = self.further().chain(self.notes.iter().cloned()).collect();
        for note in notes {
            lines.extend([String::new(), note]);
        }
        lines.join("\n")
    }

    fn line(&self, name: &str, series: &[&str], has_peers: bool) -> String {
        let row_of = |series: &str| self.rows.iter().find(|row| row.name == name && row.series == series);
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
    fn compared(&self, row: &Row, with: &Comparison) -> String {
        let Some(ratio) = self.ratio(row, with) else {
            return String::new();
        };
        let mut shown = format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high);
        for (limit, holds, text) in [
            (with.at_most, ratio.median <= with.at_most.unwrap_or(f64::MAX), ["\u{2264}", ">"]),
            (with.at_least, ratio.median >= with.at_least.unwrap_or_default(), ["\u{2265}", "<"]),
            (
                with.low_at_least,
                ratio.low >= with.low_at_least.unwrap_or_default(),
                ["low \u{2265}", "low <"],
            ),
        ] {
            let text = text[usize::from(!holds)];
            shown.extend(limit.map(|limit| format!(" {text} {limit}")));
        }
        shown
    }

    /// The ratio of a row to a peer; none if one of them was not measured.
    fn ratio(&self, row: &Row, comparison: &Comparison) -> Option<Ratio> {
        if let Some(ratios) = &comparison.ratios {
            return ratio(ratios);
        }
        let peer = self.peer(row, comparison)?;
        let pairs = row.samples.iter().zip(&peer.samples);
        ratio(&pairs.map(|(sample, peer)| sample / peer).collect::<Vec<_>>())
    }

    /// The row that another one is compared with.
    fn peer(&self, row: &Row, comparison: &Comparison) -> Option<&Row> {
        let named = |series: &str| {
            let mut rows = self.rows.iter();
            rows.find(|peer| peer.name == comparison.peer && peer.series == series)
        };
        named(&row.series).or_else(|| named(""))
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
    fn names(&self) -> Vec<&str> {
        each_once(self.rows.iter().map(|row| row.name.as_str()))
    }

    /// Series, each once. Where a table has more than one, rows of none are in the first column.
    fn series(&self) -> Vec<&str> {
        each_once(self.rows.iter().map(|row| row.series.as_str()))
    }
}

impl Row {
    /// Name and series.
    fn title(&self) -> String {
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
fn figure(value: f64) -> String {
    match value.abs() {
        above if above >= 99.95 => format!("{value:.0}"),
        above if above >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn minimum(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().min_by(f64::total_cmp)
}

fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len().checked_sub(1)? / 2;
    let other = sorted.len() / 2;
    Some(f64::midpoint(*sorted.get(middle)?, *sorted.get(other)?))
}

fn ratio(ratios: &[f64]) -> Option<Ratio> {
    let sorted = sorted(ratios);
    let outside = outside(sorted.len());
    Some(Ratio {
        median: median(&sorted)?,
        low: *sorted.get(outside)?,
        high: *sorted.get(sorted.len().checked_sub(1 + outside)?)?,
    })
}

/// How many of the ordered ratios lie outside of the interval on each side: the most for which the median of what they were
/// drawn from lies there with a probability of at most 2.5 %. Each draw is above that median with one half.
fn outside(draws: usize) -> usize {
    let draws_f = f64::from(u32::try_from(draws).unwrap_or(u32::MAX));
    let (mut exactly, mut at_most, mut above) = (0.5_f64.powf(draws_f), 0.0, 0.0);
    for count in 0..draws {
        at_most += exactly;
        if at_most > 0.025 {
            return count.saturating_sub(1);
        }
        exactly *= (draws_f - above) / (above + 1.0);
        above += 1.0;
    }
    0
}

fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_name_stand_in_one_line_with_a_column_for_each_series() {
        let limited = |limit| Comparison { at_most: Some(limit), ..Comparison::with("empty") };
        let table = Table {
            name: "packet".into(),
            title: "Packets".into(),
            unit: "ns".into(),
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
            notes: Vec::new(),
            rows: vec![Row::new("maps", "", vec![192.0])],
        };
        assert_eq!(table.markdown(), "| Memory, KiB |  |\n| --- | --- |\n| maps | 192 |");
    }

    #[test]
    fn figures_have_three_digits_that_count() {
        let shown = [0.5, 9.99, 13.04, 99.96, 1234.5].map(figure);
        assert_eq!(shown, ["0.50", "9.99", "13.0", "100", "1234"]);
    }

    #[test]
    fn the_interval_leaves_out_as_many_as_tables_of_the_sign_test_do() {
        let expected = [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (100, 39)];
        for (draws, left_out) in expected {
            assert_eq!(outside(draws), left_out, "{draws}");
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_medians() {
        let table = table(&[4.0, 10.0, 6.0], &[2.0, 10.0, 2.0]);
        let ratio = table.ratio(&table.rows[0], &table.rows[0].compare[0]);
        let expected = Ratio { median: 2.0, low: 1.0, high: 3.0 };
        assert_eq!(ratio, Some(expected));
    }

    #[test]
    fn a_peer_of_the_same_series_goes_before_one_of_none() {
        let mut table = table(&[4.0], &[2.0]);
        table.rows[0].series = "IPv6".into();
        let find = |table: &Table| {
            let peer = table.peer(&table.rows[0], &table.rows[0].compare[0]);
            peer.map(|peer| peer.samples[0])
        };
        assert_eq!(find(&table), Some(2.0));
        table.rows.push(Row::new("empty", "IPv6", vec![3.0]));
        assert_eq!(find(&table), Some(3.0));
        table.rows[0].compare[0].peer = "missing".into();
        assert_eq!(find(&table), None);
    }

    fn table(row: &[f64], peer: &[f64]) -> Table {
        let compared = Row::new("row", "", row.into()).compare(Comparison::with("empty"));
        Table {
            name: "t".into(),
            title: String::new(),
            unit: "ns".into(),
            notes: Vec::new(),
            rows: vec![compared, Row::new("empty", "", peer.into())],
        }
    }
}

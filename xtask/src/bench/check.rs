//! Compares ratios with their limits. Times are never compared: they differ from machine to machine.

use std::collections::BTreeMap;

use super::figures::Ratio;
use super::form::{Comparison, Table};

/// A limit of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
    LowAtLeast(f64),
}

/// What `--check` found in tables.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) kept: u32,
    /// Of these, the ones that miss a limit by less than their margin.
    pub(super) by_margin: u32,
    /// Rows that miss a limit by more than the margin, by table, row and peer, and a line about each.
    pub(super) missed: BTreeMap<String, String>,
}

/// Compares the ratios of tables with their limits and margins.
pub(super) fn check(tables: &[Table]) -> Checked {
    let mut checked = Checked::default();
    for table in tables {
        for row in &table.rows {
            for with in &row.compare {
                let Some(ratio) = table.ratio(row, with) else {
                    continue;
                };
                let missed = limits(with).find(|limit| !limit.holds(ratio, with.margin));
                if missed.is_none() {
                    checked.kept += u32::from(limits(with).next().is_some());
                    checked.by_margin += u32::from(limits(with).any(|limit| !limit.holds(ratio, 1.0)));
                    continue;
                }
                let name = format!("{}: {}, to {}", table.name, row.title(), with.peer);
                let line = format!("{name}: {}, margin {}", table.compared(row, with), with.margin);
                checked.missed.insert(name, line);
            }
        }
    }
    checked
}

/// How the ratio stands to each limit, without margins: `≤ 1.45` or `> 1.45`.
pub(super) fn verdict(ratio: Ratio, with: &Comparison) -> Vec<String> {
    let shown = limits(with).map(|limit| match (limit, limit.holds(ratio, 1.0)) {
        (Limit::AtMost(most), true) => format!("≤ {most}"),
        (Limit::AtMost(most), false) => format!("> {most}"),
        (Limit::AtLeast(least), true) => format!("≥ {least}"),
        (Limit::AtLeast(least), false) => format!("< {least}"),
        (Limit::LowAtLeast(least), true) => format!("low ≥ {least}"),
        (Limit::LowAtLeast(least), false) => format!("low < {least}"),
    });
    shown.collect()
}

fn limits(with: &Comparison) -> impl Iterator<Item = Limit> {
    let limits = [
        with.at_most.map(Limit::AtMost),
        with.at_least.map(Limit::AtLeast),
        with.low_at_least.map(Limit::LowAtLeast),
    ];
    limits.into_iter().flatten()
}

impl Limit {
    fn holds(self, ratio: Ratio, margin: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio.median <= most * margin,
            Self::AtLeast(least) => ratio.median >= least / margin,
            Self::LowAtLeast(least) => ratio.low >= least / margin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::{Better, Row};
    use super::*;

    fn table(with: Comparison) -> [Table; 1] {
        [Table {
            name: "packet".into(),
            title: String::new(),
            unit: "ns".into(),
            better: Better::Lower,
            notes: Vec::new(),
            rows: vec![
                Row::new("empty", "", vec![10.0; 7]),
                Row::new("miss", "IPv4", vec![15.0; 7]).compare(with),
            ],
        }]
    }

    fn at_most(most: f64, margin: f64) -> Comparison {
        Comparison {
            at_most: Some(most),
            margin,
            ..Comparison::with("empty")
        }
    }

    #[test]
    fn a_ratio_beyond_its_limit_and_margin_is_named() {
        let checked = check(&table(at_most(1.4, 1.05)));
        let line = "packet: miss, IPv4, to empty: 1.500 [1.500, 1.500] > 1.4, margin 1.05";
        assert_eq!(checked.missed.values().collect::<Vec<_>>(), [line]);
        let kept = |with| {
            let checked = check(&table(with));
            (checked.kept, checked.by_margin)
        };
        assert_eq!(kept(at_most(1.4, 1.1)), (1, 1));
        assert_eq!(kept(at_most(1.5, 1.0)), (1, 0));
    }

    #[test]
    fn lower_limits_hold_for_the_median_and_for_the_interval() {
        let with = |at_least, low_at_least| Comparison {
            at_least,
            low_at_least,
            ..Comparison::with("empty")
        };
        let missed = |with| check(&table(with)).missed.len();
        assert_eq!(missed(with(Some(1.5), None)), 0);
        assert_eq!(missed(with(Some(1.6), None)), 1);
        assert_eq!(missed(with(None, Some(1.5))), 0);
        assert_eq!(missed(with(None, Some(1.6))), 1);
    }

    #[test]
    fn a_comparison_without_limits_or_without_samples_counts_as_nothing() {
        assert_eq!(check(&table(Comparison::with("empty"))), Checked::default());
        let absent = Comparison {
            at_most: Some(1.0),
            ..Comparison::with("absent")
        };
        assert_eq!(check(&table(absent)), Checked::default());
    }
}

//! Figures of samples: minimum, median, and the ratio to a peer.

use super::form::{Comparison, Row, Table};

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) median: f64,
    /// 95 % interval of the median by order statistics. The extremes where there are fewer than 6 ratios.
    pub(super) low: f64,
    pub(super) high: f64,
}

pub(super) fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

pub(super) fn minimum(samples: &[f64]) -> Option<f64> {
    samples.iter().copied().min_by(f64::total_cmp)
}

pub(super) fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len().checked_sub(1)? / 2;
    let other = sorted.len() / 2;
    Some(f64::midpoint(*sorted.get(middle)?, *sorted.get(other)?))
}

impl Table {
    /// The ratio of a row of this table to a peer; none if one of them was not measured.
    pub(super) fn ratio(&self, row: &Row, comparison: &Comparison) -> Option<Ratio> {
        if let Some(ratios) = &comparison.ratios {
            return of(ratios);
        }
        let peer = self.peer(row, comparison)?;
        let pairs = row.samples.iter().zip(&peer.samples);
        of(&pairs.map(|(sample, peer)| sample / peer).collect::<Vec<_>>())
    }

    /// The row that another one is compared with.
    pub(super) fn peer(&self, row: &Row, comparison: &Comparison) -> Option<&Row> {
        let named = |series: &str| {
            self.rows
                .iter()
                .find(|peer| peer.name == comparison.peer && peer.series == series)
        };
        named(&row.series).or_else(|| named(""))
    }
}

fn of(ratios: &[f64]) -> Option<Ratio> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_as_many_as_tables_of_the_sign_test_do() {
        let expected = [
            (1, 0),
            (5, 0),
            (6, 0),
            (8, 0),
            (9, 1),
            (11, 1),
            (12, 2),
            (20, 5),
            (100, 39),
        ];
        for (draws, left_out) in expected {
            assert_eq!(outside(draws), left_out, "{draws}");
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_medians() {
        let table = table(&[4.0, 10.0, 6.0], &[2.0, 10.0, 2.0]);
        let ratio = table.ratio(&table.rows[0], &table.rows[0].compare[0]);
        let expected = Ratio {
            median: 2.0,
            low: 1.0,
            high: 3.0,
        };
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
        super::super::form::Table {
            name: "t".into(),
            title: String::new(),
            unit: "ns".into(),
            better: super::super::form::Better::Lower,
            notes: Vec::new(),
            rows: vec![compared, Row::new("empty", "", peer.into())],
        }
    }
}

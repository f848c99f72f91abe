//! Counting answers, how long they took, and the table at the end.

use std::time::Duration;

use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Row, Table};

use super::callers::{Answer, Answers, Caller, Seen, Team};

/// The answers of an act's callers.
#[derive(Debug)]
pub struct Act {
    title: &'static str,
    rows: Vec<(Caller, Vec<Option<Answer>>)>,
}

impl Act {
    /// What came of a burst.
    #[must_use]
    pub fn new(title: &'static str, callers: &[Caller], answers: Answers) -> Self {
        let rows = callers.iter().cloned().zip(answers).collect();
        Self { title, rows }
    }

    /// Which act.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Calls of those who mean this team.
    #[must_use]
    pub fn calls(&self, meant: Team) -> usize {
        self.count(meant, |_| true)
    }

    /// Calls of those who mean a team and that saw this.
    #[must_use]
    pub fn saw(&self, meant: Team, what: &Seen) -> usize {
        self.count(meant, |seen| seen == what)
    }

    /// What half of the calls of those who mean this team took no longer than.
    #[must_use]
    pub fn median(&self, meant: Team) -> Duration {
        median(self.answers(meant)).unwrap_or_default()
    }

    fn count(&self, meant: Team, counts: impl Fn(&Seen) -> bool) -> usize {
        self.answers(meant).filter(|answer| counts(&answer.seen)).count()
    }

    fn answers(&self, meant: Team) -> impl Iterator<Item = &Answer> {
        let rows = self.rows.iter().filter(move |(caller, _)| caller.meant == meant);
        rows.flat_map(|(_, row)| row.iter().flatten())
    }
}

/// The median latency, if there is an answer.
pub fn median<'a>(answers: impl Iterator<Item = &'a Answer>) -> Option<Duration> {
    let mut latencies: Vec<Duration> = answers.map(|answer| answer.latency).collect();
    latencies.sort_unstable();
    let upper = latencies.get(latencies.len() / 2)?;
    let lower = latencies.get((latencies.len() - 1) / 2)?;
    Some((*lower + *upper) / 2)
}

/// A latency for people, who need no more than two digits of it.
#[must_use]
pub fn milliseconds(latency: Duration) -> String {
    let number = latency.as_secs_f64() * 1000.0;
    let digits = usize::from(number < 9.95);
    format!("{number:.digits$} ms")
}

/// Who called, and who answered, act by act.
#[must_use]
pub fn table(acts: &[Act]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.apply_modifier(UTF8_ROUND_CORNERS);
    table.set_header([
        "who called",
        "calls",
        "reply\nby A",
        "reply\nby B",
        "timed\nout",
        "refused",
        "other",
        "median",
    ]);
    for act in acts {
        table.add_row([act.title]);
        for (caller, answers) in &act.rows {
            table.add_row(row(caller, answers));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(caller: &Caller, row: &[Option<Answer>]) -> Row {
    let answers = || row.iter().flatten();
    let count = |seen: Seen| answers().filter(|answer| answer.seen == seen).count();
    let counts = [
        answers().count(),
        count(Seen::Answer(Team::A)),
        count(Seen::Answer(Team::B)),
        count(Seen::TimedOut),
        count(Seen::Refused),
        answers()
            .filter(|answer| matches!(answer.seen, Seen::Other(_)))
            .count(),
    ];
    let numbers = counts.map(|number| {
        Cell::new(if number == 0 {
            "·".into()
        } else {
            number.to_string()
        })
    });
    let median = median(answers()).map_or_else(|| "·".into(), milliseconds);
    let mut cells = vec![Cell::new(format!("  {}", caller.who))];
    cells.extend(numbers);
    cells.push(Cell::new(median));
    cells.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median_of(latencies: &[u64]) -> Option<Duration> {
        let answers: Vec<Answer> = latencies
            .iter()
            .map(|latency| Answer {
                seen: Seen::TimedOut,
                latency: Duration::from_micros(*latency),
            })
            .collect();
        median(answers.iter())
    }

    #[test]
    fn half_of_the_calls_took_no_longer_than_the_median() {
        assert_eq!(median_of(&[900, 100, 300]), Some(Duration::from_micros(300)));
        assert_eq!(median_of(&[900, 100, 300, 500]), Some(Duration::from_micros(400)));
        assert_eq!(median_of(&[]), None);
    }

    #[test]
    fn a_latency_has_two_digits_that_matter() {
        let text = |micros| milliseconds(Duration::from_micros(micros));
        assert_eq!(
            [text(349), text(9_949), text(9_951), text(800_700)],
            ["0.3 ms", "9.9 ms", "10 ms", "801 ms"]
        );
    }
}

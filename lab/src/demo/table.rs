//! The table at the end.

use super::calls::Tally;
use super::screen::{self, Colour, Screen};

/// One row: who called under which circumstances, and what became of it.
pub struct Row<'a> {
    /// When, or who.
    pub label: &'a str,
    /// Calls.
    pub calls: usize,
    /// Answered by a pod of A.
    pub by_a: usize,
    /// Answered by B.
    pub by_b: usize,
    /// Not answered.
    pub denied: usize,
    /// B's answers are what is wanted.
    pub b_is_right: bool,
}

impl<'a> Row<'a> {
    /// Calls to A's Service.
    pub fn of_a(label: &'a str, tally: &Tally) -> Self {
        let (by_a, by_b, denied) = (tally.right, tally.wrong.len(), tally.unanswered.len());
        Self {
            label,
            calls: tally.calls,
            by_a,
            by_b,
            denied,
            b_is_right: false,
        }
    }

    /// Calls to B's Service.
    pub fn of_b(label: &'a str, tallies: &[&Tally]) -> Self {
        let sum = |count: fn(&Tally) -> usize| tallies.iter().map(|tally| count(tally)).sum();
        Self {
            label,
            calls: sum(|tally| tally.calls),
            by_a: sum(|tally| tally.wrong.len()),
            by_b: sum(|tally| tally.right),
            denied: sum(|tally| tally.unanswered.len()),
            b_is_right: true,
        }
    }
}

/// Writes the table.
pub fn write(screen: Screen, rows: &[Row<'_>]) {
    let header = format!(
        "{:<34}{:>8}{:>16}{:>16}{:>10}",
        "", "calls", "answered by A", "answered by B", "denied"
    );
    screen::line(screen.paint(Colour::Bold, header));
    for row in rows {
        let colour = match (row.by_b, row.b_is_right) {
            (0, _) => Colour::Grey,
            (_, true) => Colour::Green,
            (_, false) => Colour::Red,
        };
        let denied = if row.denied == 0 {
            Colour::Grey
        } else {
            Colour::Yellow
        };
        screen::line(format_args!(
            "{:<34}{:>8}{:>16}{}{}",
            row.label,
            row.calls,
            row.by_a,
            screen.paint(colour, format!("{:>16}", row.by_b)),
            screen.paint(denied, format!("{:>10}", row.denied)),
        ));
    }
}

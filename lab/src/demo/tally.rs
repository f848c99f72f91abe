//! Counting answers, and the table at the end.

use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Row, Table};

use super::callers::{Answers, Caller, Seen, Team};

/// The answers of an act's callers.
#[derive(Debug)]
pub struct Act {
    title: &'static str,
    rows: Vec<(Caller, Vec<Option<Seen>>)>,
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

    fn count(&self, meant: Team, counts: impl Fn(&Seen) -> bool) -> usize {
        let rows = self.rows.iter().filter(|(caller, _)| caller.meant == meant);
        rows.flat_map(|(_, row)| row.iter().flatten())
            .filter(|seen| counts(seen))
            .count()
    }
}

/// Who called, and who answered, act by act.
#[must_use]
pub fn table(acts: &[Act]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.apply_modifier(UTF8_ROUND_CORNERS);
    table.set_header([
        "who called",
        "whom",
        "calls",
        "answered\nby A",
        "answered\nby B",
        "timed\nout",
        "other",
    ]);
    for act in acts {
        table.add_row([act.title]);
        for (caller, answers) in &act.rows {
            table.add_row(row(caller, answers));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(caller: &Caller, answers: &[Option<Seen>]) -> Row {
    let count = |what: &dyn Fn(&Seen) -> bool| answers.iter().flatten().filter(|seen| what(seen)).count();
    let whom = match caller.meant {
        Team::A => "A",
        Team::B => "B",
    };
    let counts = [
        count(&|_| true),
        count(&|seen| *seen == Seen::Answer(Team::A)),
        count(&|seen| *seen == Seen::Answer(Team::B)),
        count(&|seen| *seen == Seen::TimedOut),
        count(&|seen| matches!(seen, Seen::Other(_))),
    ];
    let numbers = counts.map(|number| {
        Cell::new(if number == 0 {
            "·".into()
        } else {
            number.to_string()
        })
    });
    let names = [format!("  {}", caller.who), whom.into()].map(Cell::new);
    names.into_iter().chain(numbers).collect::<Vec<_>>().into()
}

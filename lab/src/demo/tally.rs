//! The table at the end: who called, and who answered.

use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Row, Table};

use crate::scenario::format::BurstCaller as Caller;
use crate::scenario::played::{Played, median, milliseconds};
use crate::traffic::{Answer, Outcome};

/// The table of callers and answers, act by act.
pub fn table(played: &[Played<'_>]) -> Table {
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
    for played in played {
        table.add_row([&played.burst.title]);
        for ((_, caller), answers) in played.burst.callers().zip(&played.answers) {
            table.add_row(row(caller, answers));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(caller: &Caller, row: &[Option<Answer>]) -> Row {
    let outcomes = || row.iter().flatten().map(|answer| &answer.outcome);
    let count = |what: &dyn Fn(&Outcome) -> bool| outcomes().filter(|outcome| what(outcome)).count();
    let by = |pod| count(&|outcome| matches!(outcome, Outcome::Reply(name) if name == pod));
    let (all, timed_out, refused) = (
        outcomes().count(),
        count(&|outcome| *outcome == Outcome::TimedOut),
        count(&|outcome| *outcome == Outcome::Refused),
    );
    let (a, b) = (by("A"), by("B"));
    let counts = [all, a, b, timed_out, refused, all - a - b - timed_out - refused];
    let numbers = counts.map(|number| Cell::new(if number == 0 { "·".into() } else { number.to_string() }));
    let median = median(row.iter().flatten()).map_or_else(|| "·".into(), milliseconds);
    let mut cells = vec![Cell::new(format!("  {}", caller.who))];
    cells.extend(numbers);
    cells.push(Cell::new(median));
    cells.into()
}

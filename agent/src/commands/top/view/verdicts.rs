//! Packets a second by verdict, as the kernel counts them.

use super::super::model::Model;
use super::super::palette::{FAINT, Palette, TITLE};
use super::super::rates::{Rate, shown};
use epguard_common::{Effect, Outcome, Reason};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Lines, with an empty one above.
pub(super) const HEIGHT: u16 = 7;

/// Width of the first column.
pub(super) const FIRST: u16 = 17;

const FIRST_COLUMN: usize = FIRST as usize;
const OTHERS: usize = 12;

/// A line for each reason to deny, and one for what passed.
pub(super) fn verdicts(model: &Model, palette: Palette) -> Vec<Line<'static>> {
    let outcomes = Outcome::of_denials;
    let titles = outcomes().map(|outcome| format!("{:>OTHERS$}", outcome.as_str().to_uppercase()));
    let titles = titles.collect::<String>();
    let mut lines = vec![
        Line::default(),
        Line::styled(format!("{:<FIRST_COLUMN$}{titles}", "PACKETS/S"), TITLE),
    ];
    lines.extend(Reason::TO_DENY.into_iter().map(|reason| {
        let rates = outcomes().map(|outcome| {
            let style = if outcome == Outcome::Observed {
                palette.observed()
            } else {
                palette.stopped()
            };
            number(model.verdicts.rate(&(reason, outcome)), style)
        });
        let name = Span::raw(format!("{:<FIRST_COLUMN$}", reason.as_str()));
        [name].into_iter().chain(rates).collect()
    }));
    lines.push(passed(model));
    lines
}

/// The label of the curve: the latest rate, and the highest on it.
pub(super) fn label(model: &Model) -> [Line<'static>; 2] {
    let what = if model.enforces() {
        "denied/s"
    } else {
        "observed/s"
    };
    let [newest, highest] = [model.history.newest().next(), model.history.newest().max()].map(shown);
    let width = FIRST_COLUMN - what.len();
    [
        Line::raw(format!("{what}{newest:>width$}")),
        Line::styled(format!("highest{highest:>10}"), FAINT),
    ]
}

/// Packets to suspects that pass without being observed.
fn passed(model: &Model) -> Line<'static> {
    let rate = |outcome| model.verdicts.sum(|(_, counted)| *counted == outcome);
    let outcomes = Outcome::ALL.into_iter();
    let outcomes = outcomes.filter(|outcome| outcome.effect() == Effect::Passed);
    let rates: Vec<(Outcome, Option<Rate>)> = outcomes.map(|outcome| (outcome, rate(outcome))).collect();
    let all = rates.iter().map(|(_, rate)| *rate).sum();
    let some = rates
        .into_iter()
        .filter(|(_, rate)| *rate > Some(Rate::default()));
    let some = some.map(|(outcome, rate)| format!("{} {}", outcome.as_str(), shown(rate)));
    Line::from(vec![
        Span::raw(format!("{:<FIRST_COLUMN$}", "passed")),
        number(all, Style::new()),
        Span::raw(format!("   {}", some.collect::<Vec<_>>().join(", "))),
    ])
}

fn number(rate: Option<Rate>, style: Style) -> Span<'static> {
    let idle = rate.is_none_or(|rate| rate == Rate::default());
    Span::styled(
        format!("{:>OTHERS$}", shown(rate)),
        if idle { FAINT } else { style },
    )
}

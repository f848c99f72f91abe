//! The screen, from the model and a size. Pure.

#[cfg(test)]
pub(super) mod fixture;
mod head;
#[cfg(test)]
mod tests;
mod verdicts;

use super::controls::HELP;
use super::model::Model;
use super::palette::{BAR, FAINT, Palette};
use super::rates::REMEMBERED;
use super::rows::{Row, Rows, rows};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline, Widget as _};

/// Draws the screen, as far as there is room.
pub(super) fn draw(model: &Model, palette: Palette, area: Rect, buffer: &mut Buffer) {
    let [above, by_verdict, over_time, flows, below] = parts(area);
    let rows = rows(model);
    put(&head::head(model, palette), above, buffer);
    put(&verdicts::verdicts(model, palette), by_verdict, buffer);
    curve(model, palette, over_time, buffer);
    table(model, &rows, flows, buffer);
    put(&[foot(model, rows.all.len())], below, buffer);
}

/// How many rows there are, and how many of them fit.
pub(super) fn extent(model: &Model, area: Rect) -> (usize, usize) {
    let [_, _, _, table, _] = parts(area);
    let below_titles = table.height.saturating_sub(1);
    (rows(model).all.len(), below_titles.into())
}

/// The model as plain text: every row and every name whole, without the parts that only a screen needs.
pub(super) fn text(model: &Model) -> String {
    let palette = Palette { colours: false };
    let head = head::head(model, palette).into_iter();
    let above = head
        .chain(verdicts::verdicts(model, palette))
        .map(|line| line.to_string());
    let (titles, rows) = rows(model).lines(usize::MAX);
    let lines = above.chain([String::new(), titles]).chain(rows);
    let lines = lines.map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// The areas of the screen: head, verdicts, curve, table, foot. On a short screen the table matters most.
fn parts(area: Rect) -> [Rect; 5] {
    let from = |height, lines| if area.height >= height { lines } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(from(18, verdicts::HEIGHT)),
        Constraint::Length(from(9, 3)),
        Constraint::Fill(1),
        Constraint::Length(from(4, 1)),
    ]);
    parts.areas(area)
}

fn put(lines: &[Line<'_>], area: Rect, buffer: &mut Buffer) {
    for (line, row) in lines.iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// Draws the curve: packets stopped in the last refreshes, the newest at the right.
fn curve(model: &Model, palette: Palette, area: Rect, buffer: &mut Buffer) {
    let width = u16::try_from(REMEMBERED).unwrap_or(u16::MAX);
    let height = area.height.min(2);
    let parts = [Constraint::Length(verdicts::FIRST + 2), Constraint::Max(width)];
    let [label, curve] = Layout::horizontal(parts).areas(Rect { height, ..area });
    put(&verdicts::label(model), label, buffer);
    let style = if model.enforces() {
        palette.stopped()
    } else {
        palette.observed()
    };
    Sparkline::default()
        .data(model.history.newest().map(|rate| rate.tenths))
        .direction(RenderDirection::RightToLeft)
        .style(style)
        .render(curve, buffer);
}

fn table(model: &Model, rows: &Rows, area: Rect, buffer: &mut Buffer) {
    let (titles, lines) = rows.lines(area.width.into());
    let idle = rows.all.iter().map(Row::is_idle).chain([true]);
    let shown = idle.zip(lines).skip(model.controls.scroll).map(|(idle, line)| {
        let style = if idle { FAINT } else { Style::new() };
        Line::styled(line, style)
    });
    let lines: Vec<Line<'_>> = [Line::raw(titles)].into_iter().chain(shown).collect();
    put(&lines, area, buffer);
    let height = area.height.min(1);
    buffer.set_style(Rect { height, ..area }, BAR);
}

fn foot(model: &Model, rows: usize) -> Line<'static> {
    let controls = &model.controls;
    if controls.help {
        return Line::styled(HELP, FAINT);
    }
    let of = if controls.services { "Services" } else { "flows" };
    let first = controls.scroll.saturating_add(1).min(rows);
    let last = controls.scroll.saturating_add(controls.page).min(rows);
    let paused = if controls.paused { "   PAUSED" } else { "" };
    let sort = controls.sort;
    Line::styled(
        format!("{of} by {sort}: {first} to {last} of {rows}{paused}   ? keys  q quit"),
        FAINT,
    )
}

//! The text of each line of a terminal over time. The terminal is so high that it never scrolls.

use std::num::NonZeroU16;

use vt100::{Cell, Color, Parser};

use super::cast::Event;

/// More lines than a recording has.
const HEIGHT: NonZeroU16 = NonZeroU16::new(600).expect("not zero");

/// A recording, by lines.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Film {
    pub(super) lines: Vec<Line>,
    /// The number of lines in use from each of these times on.
    pub(super) heights: Vec<(f64, usize)>,
    /// Seconds until the last event.
    pub(super) length: f64,
}

/// The text of a line during a time span.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) row: usize,
    pub(super) runs: Vec<Run>,
    pub(super) from: f64,
    /// Time at which other text replaces it; none if it stays to the end.
    pub(super) until: Option<f64>,
}

/// Characters of one style. Spaces around it are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Column of its first character.
    pub(super) column: usize,
    /// In columns.
    pub(super) width: usize,
    pub(super) text: String,
    pub(super) style: Style,
}

/// Attributes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    pub(super) bold: bool,
    pub(super) dim: bool,
    /// One of the terminal's eight; none for the default colour.
    pub(super) colour: Option<u8>,
}

/// Plays the events in a terminal of this width.
pub(super) fn film(events: &[Event], columns: NonZeroU16) -> Film {
    let mut film = Film::default();
    let mut parser = Parser::new(HEIGHT, columns, 0);
    // The line of the film that each row shows now.
    let mut showing: Vec<Option<usize>> = vec![None; usize::from(HEIGHT.get())];
    let mut height = 0;
    for event in events {
        let before = parser.screen().cursor_position().0;
        parser.process(event.text.as_bytes());
        let (after, _) = parser.screen().cursor_position();
        let up = u16::try_from(event.text.matches('\n').count()).unwrap_or(u16::MAX);
        for row in before.min(after).saturating_sub(up)..=before.max(after) {
            update(
                &mut film,
                &mut showing[usize::from(row)],
                runs(&parser, row, columns),
                row,
                event.at,
            );
        }
        let used = film.lines.iter().map(|line| line.row + 1).max().unwrap_or(0);
        if used > height {
            height = used;
            film.heights.push((event.at, height));
        }
        film.length = event.at;
    }
    film.lines.retain(|line| line.until != Some(line.from));
    film
}

fn update(film: &mut Film, showing: &mut Option<usize>, runs: Vec<Run>, row: u16, now: f64) {
    let shown = showing.and_then(|index| film.lines.get_mut(index));
    match shown {
        Some(line) if line.runs == runs => return,
        Some(line) => line.until = Some(now),
        None => {}
    }
    *showing = (!runs.is_empty()).then_some(film.lines.len());
    if !runs.is_empty() {
        film.lines.push(Line {
            row: row.into(),
            runs,
            from: now,
            until: None,
        });
    }
}

/// A row's text. Two spaces part runs of the same style, so that columns stay columns in any font.
fn runs(parser: &Parser, row: u16, columns: NonZeroU16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns.get() {
        let Some(cell) = parser.screen().cell(row, column) else {
            continue;
        };
        let text = cell.contents();
        if text.trim().is_empty() {
            continue;
        }
        let (column, style) = (usize::from(column), style(cell));
        let width = if cell.is_wide() { 2 } else { 1 };
        match runs.last_mut() {
            Some(run) if run.style == style && column - run.column - run.width < 2 => {
                run.text.push_str(&" ".repeat(column - run.column - run.width));
                run.text.push_str(text);
                run.width = column - run.column + width;
            }
            _ => runs.push(Run {
                column,
                width,
                text: text.into(),
                style,
            }),
        }
    }
    runs
}

fn style(cell: &Cell) -> Style {
    let colour = match cell.fgcolor() {
        Color::Idx(colour) => Some(colour),
        Color::Default | Color::Rgb(..) => None,
    };
    Style {
        bold: cell.bold(),
        dim: cell.dim(),
        colour,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: NonZeroU16 = NonZeroU16::new(40).expect("not zero");

    fn event(at: f64, text: &str) -> Event {
        Event {
            at,
            text: text.into(),
        }
    }

    fn run(column: usize, text: &str, style: Style) -> Run {
        Run {
            column,
            width: text.chars().count(),
            text: text.into(),
            style,
        }
    }

    #[test]
    fn colours_bold_and_dim_are_kept_and_columns_are_runs_of_their_own() {
        let text = "\u{1b}[1mbold\u{1b}[0m  a b    c\u{1b}[2mdim\u{1b}[0m\u{1b}[32m✔\u{1b}[0m\r\n";
        let film = film(&[event(0.5, text)], WIDE);
        let plain = Style::default();
        let expected = [
            run(0, "bold", Style { bold: true, ..plain }),
            run(6, "a b", plain),
            run(13, "c", plain),
            run(14, "dim", Style { dim: true, ..plain }),
            run(
                17,
                "✔",
                Style {
                    colour: Some(2),
                    ..plain
                },
            ),
        ];
        assert_eq!(film.lines.len(), 1);
        assert_eq!(film.lines[0].runs, expected);
    }

    #[test]
    fn a_line_that_is_written_again_ends_the_one_before() {
        let events = [
            event(1.0, "one\r\ntwo\r\n"),
            event(2.0, "\u{1b}[2Aone\u{1b}[K\r\n2\u{1b}[K\r\n"),
            event(3.0, "three\r\n"),
        ];
        let film = film(&events, WIDE);
        let lines: Vec<_> = film
            .lines
            .iter()
            .map(|line| (line.row, &*line.runs[0].text, line.from, line.until))
            .collect();
        let expected = [
            (0, "one", 1.0, None),
            (1, "two", 1.0, Some(2.0)),
            (1, "2", 2.0, None),
            (2, "three", 3.0, None),
        ];
        assert_eq!(lines, expected);
        assert_eq!(film.heights, [(1.0, 2), (3.0, 3)]);
    }
}

//! What a terminal is able to show.

use std::io::{IsTerminal as _, stdout};

use epguard::shared::output::is_coloured;
use epguard::shared::screen::Screen;

/// Columns of a screen that is no terminal, and the most that are used of one: longer lines are
/// hard to read.
const MOST: usize = 88;
/// Columns below which nothing is drawn over: rows may have more than one line there.
const LIVE: usize = 80;

/// How it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Columns that lines keep to.
    pub width: usize,
    /// Whether there are colours.
    pub colours: bool,
    /// Whether unfinished answers are shown, and drawn over.
    pub live: bool,
}

impl Form {
    /// What standard output is able to show. Obeys `NO_COLOR`.
    pub fn of_stdout() -> Self {
        let columns = Screen::of_output(false).width;
        let obeys = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self::of(columns, obeys && stdout().is_terminal(), is_coloured())
    }

    /// The form for this many columns, if they are known; `obeys`: it moves its cursor.
    pub fn of(columns: Option<usize>, obeys: bool, colours: bool) -> Self {
        Self {
            width: columns.map_or(MOST, |columns| columns.min(MOST)),
            colours,
            live: obeys && columns.is_some_and(|columns| columns >= LIVE),
        }
    }
}

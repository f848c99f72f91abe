//! Colours, for terminals whose user wants them.

use anstream::{AutoStream, ColorChoice};
use ratatui::style::{Color, Modifier, Style};
use std::io::stdout;

/// Styles for things of one kind; without colours they differ by what a monochrome terminal can do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    pub(super) colours: bool,
}

impl Palette {
    /// Chooses as the other commands do: no colours with `NO_COLOR`.
    pub(super) fn wanted() -> Self {
        Self {
            colours: AutoStream::choice(&stdout()) != ColorChoice::Never,
        }
    }

    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Style of packets that pass, but would be stopped with `enforce`.
    pub(super) fn observed(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Style of packets that are stopped.
    pub(super) fn stopped(self) -> Style {
        self.coloured(Color::Red)
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

pub(super) const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

//! What the demo writes: colours and moving lines for a terminal, plain lines for anything else.

use std::io::{self, IsTerminal, Write};

use super::calls::Tally;

/// Cells of a bar.
const BAR: usize = 32;

/// Standard output.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    terminal: bool,
}

/// Colours, as ANSI knows them.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// What is right.
    Green,
    /// What must not be.
    Red,
    /// What epguard does.
    Yellow,
    /// What matters less.
    Grey,
    /// What matters more.
    Bold,
}

impl Screen {
    /// Colours only for people, and never where `NO_COLOR` is set.
    pub fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// The text in a colour, where there are colours.
    pub fn paint(self, colour: Colour, text: impl std::fmt::Display) -> String {
        let code = match colour {
            Colour::Green => "32",
            Colour::Red => "1;31",
            Colour::Yellow => "33",
            Colour::Grey => "90",
            Colour::Bold => "1",
        };
        if self.terminal {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    /// A headline.
    pub fn act(self, number: usize, title: &str) {
        println!("\n{}", self.paint(Colour::Bold, format!("{number}  {title}")));
    }

    /// A line with a grey label.
    pub fn item(self, label: &str, text: impl std::fmt::Display) {
        line(format_args!(
            "{} {text}",
            self.paint(Colour::Grey, format!("{label:<18}"))
        ));
    }

    /// The moving line: `last` ends it; without a terminal only the last is written.
    pub fn progress(self, label: &str, tally: &Tally, of: usize, last: bool) {
        if !self.terminal && !last {
            return;
        }
        let cells = |count: usize| count * BAR / of.max(1);
        let (right, wrong) = (cells(tally.right), cells(tally.right + tally.wrong.len()));
        let denied = cells(tally.calls);
        let bar = [
            self.paint(Colour::Green, "█".repeat(right)),
            self.paint(Colour::Red, "█".repeat(wrong - right)),
            self.paint(Colour::Yellow, "▒".repeat(denied - wrong)),
            self.paint(Colour::Grey, "·".repeat(BAR - denied.min(BAR))),
        ]
        .concat();
        let counts = [
            self.paint(Colour::Green, format!("by A {:>3}", tally.right)),
            self.paint(
                if tally.wrong.is_empty() {
                    Colour::Grey
                } else {
                    Colour::Red
                },
                format!("by B {:>3}", tally.wrong.len()),
            ),
            self.paint(
                if tally.unanswered.is_empty() {
                    Colour::Grey
                } else {
                    Colour::Yellow
                },
                format!("denied {:>3}", tally.unanswered.len()),
            ),
        ]
        .join("  ");
        let (start, end) = if self.terminal {
            ("\r", if last { "\n" } else { "" })
        } else {
            ("", "\n")
        };
        print!(
            "{start}   {} {bar} {:>3} calls   {counts}{end}",
            self.paint(Colour::Grey, format!("{label:<18}")),
            tally.calls
        );
        let _ = io::stdout().flush();
    }
}

/// A line below a headline.
pub fn line(text: impl std::fmt::Display) {
    println!("   {text}");
}

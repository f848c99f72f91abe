//! Printing: colours and live lines on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stdout};

use clap::builder::styling::{AnsiColor, Style};
use comfy_table::Table;
use epguard::shared::output::is_coloured;

use crate::scenario::burst::{Played, median, milliseconds};
use crate::scenario::format::{BurstCaller as Caller, Group};
use crate::traffic::{Answer, Outcome};

/// Columns that lines keep to.
pub const WIDTH: usize = 88;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const STOPPED: Style = AnsiColor::Yellow.on_default();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// Standard output.
#[derive(Debug)]
pub struct Screen {
    colours: bool,
    live: bool,
    drawn: usize,
}

impl Screen {
    /// Obeys `NO_COLOR`.
    pub fn new() -> Self {
        Self {
            colours: is_coloured(),
            live: stdout().is_terminal()
                && std::env::var_os("TERM").is_some_and(|term| term != "dumb"),
            drawn: 0,
        }
    }

    /// A new part of the story.
    pub fn heading(&self, text: &str) {
        self.line("");
        self.line(&self.paint(
            BOLD,
            &format!(
                "━━ {text} {}",
                "━".repeat(WIDTH.saturating_sub(text.chars().count() + 4))
            ),
        ));
    }

    /// An empty line.
    pub fn pause(&self) {
        self.line("");
    }

    /// Lines of plain text; one that begins with `$` is a command.
    pub fn say(&self, text: &str) {
        for line in text.lines() {
            match line.strip_prefix("  $ ") {
                Some(command) => self.command(command),
                None => self.line(line),
            }
        }
    }

    /// Lines for readers who want details.
    pub fn detail(&self, text: &str) {
        text.lines()
            .for_each(|line| self.line(&self.paint(DIM, line)));
    }

    /// A table whose `titles` stand out.
    pub fn table(&self, table: &Table, titles: &[&str]) {
        for line in table.lines() {
            let is_title = titles.iter().any(|title| line.contains(title));
            self.line(&if is_title {
                self.paint(BOLD, &line)
            } else {
                line
            });
        }
    }

    /// A command that is run now, as a user would type it.
    pub fn command(&self, text: &str) {
        self.line(&format!("  $ {}", self.paint(COMMAND, text)));
    }

    /// The answers so far, drawn over what was drawn before; without a terminal, only once they are
    /// complete.
    pub fn answers(&mut self, so_far: &Played<'_>) {
        let answers = &so_far.answers;
        let burst = so_far.burst;
        let complete = answers.iter().flatten().all(Option::is_some);
        if !self.live && !complete {
            return;
        }
        let up = if self.live && self.drawn > 0 {
            format!("\x1b[{}A", self.drawn)
        } else {
            String::new()
        };
        let end = if self.live { "\x1b[K\n" } else { "\n" };
        let lines = burst
            .callers()
            .zip(answers)
            .map(|((group, caller), row)| self.answer_line(group, caller, row) + end);
        let text: String = std::iter::once(up).chain(lines).collect();
        print(&text);
        self.drawn = if complete { 0 } else { answers.len() };
    }

    /// Something that has just been seen to be so, or not.
    pub fn claim(&self, holds: bool, claim: &str, seen: &str) {
        self.line(&if holds {
            format!("  {} {claim}", self.paint(GOOD, "✔"))
        } else {
            format!("  {} {claim} ({seen})", self.paint(BAD, "✘ NOT SO:"))
        });
    }

    fn answer_line(&self, group: &Group, caller: &Caller, row: &[Option<Answer>]) -> String {
        let glyphs: String = row
            .iter()
            .map(|answer| self.glyph(group, answer.as_ref()))
            .collect();
        format!("    {:<35} {glyphs}  {}", caller.who, summary(row))
    }

    /// One character for an answer.
    fn glyph(&self, group: &Group, answer: Option<&Answer>) -> String {
        let Some(answer) = answer else {
            return self.paint(DIM, "·");
        };
        match &answer.outcome {
            Outcome::Reply(pod) => {
                let style = if *pod == group.means { GOOD } else { BAD };
                self.paint(style, &pod.chars().take(1).collect::<String>())
            }
            Outcome::TimedOut => self.paint(STOPPED, "×"),
            Outcome::Refused => self.paint(STOPPED, "⊘"),
            _ => self.paint(BAD, "!"),
        }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.colours {
            format!("{style}{text}{style:#}")
        } else {
            text.into()
        }
    }

    #[allow(clippy::unused_self, reason = "whoever prints has a screen")]
    fn line(&self, text: &str) {
        print(&format!("{text}\n"));
    }
}

/// Counts of each result, and the median latency.
fn summary(row: &[Option<Answer>]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for answer in row.iter().flatten() {
        let seen = match &answer.outcome {
            Outcome::Reply(pod) => format!("answered by {pod}"),
            other => other.to_string(),
        };
        *counts.entry(seen).or_default() += 1;
    }
    let parts = counts
        .into_iter()
        .map(|(words, count)| format!("{count:>2} {words}"));
    let median = median(row.iter().flatten());
    parts
        .chain(median.map(|median| format!("median {}", milliseconds(median))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Ignores a closed pipe (`| head`): the demo must still remove its namespaces.
fn print(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

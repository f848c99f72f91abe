//! Printing: colours and live lines on a terminal, plain lines elsewhere.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _, stdout};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use comfy_table::Table;

use super::callers::{Answer, Answers, Caller, Seen, Team};
use super::tally::{median, milliseconds};

/// Columns that lines keep to.
pub const WIDTH: usize = 88;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const STOPPED: Style = AnsiColor::Yellow.on_default();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// Standard output, and which of the claims made there did not hold.
#[derive(Debug)]
pub struct Screen {
    colours: bool,
    live: bool,
    drawn: usize,
    claims: usize,
    broken: Vec<String>,
}

impl Screen {
    /// `NO_COLOR` and its kin are honoured.
    #[must_use]
    pub fn new() -> Self {
        Self {
            colours: AutoStream::choice(&stdout()) != ColorChoice::Never,
            live: stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb"),
            drawn: 0,
            claims: 0,
            broken: Vec::new(),
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

    /// Lines of plain text.
    pub fn say(&self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// Lines that only those read who want to know more.
    pub fn detail(&self, text: &str) {
        text.lines().for_each(|line| self.line(&self.paint(DIM, line)));
    }

    /// A table whose `titles` stand out.
    pub fn table(&self, table: &Table, titles: &[&str]) {
        for line in table.lines() {
            let is_title = titles.iter().any(|title| line.contains(title));
            self.line(&if is_title { self.paint(BOLD, &line) } else { line });
        }
    }

    /// A command that is run now, as one would type it.
    pub fn command(&self, text: &str) {
        self.line(&format!("  $ {}", self.paint(COMMAND, text)));
    }

    /// The answers so far, drawn over what was drawn before; without a terminal, only once they are complete.
    pub fn answers(&mut self, callers: &[Caller], answers: &Answers) {
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
        let lines = callers
            .iter()
            .zip(answers)
            .map(|(caller, row)| self.answer_line(caller, row) + end);
        let text: String = std::iter::once(up).chain(lines).collect();
        print(&text);
        self.drawn = if complete { 0 } else { callers.len() };
    }

    /// Something that has just been seen to be so, or not.
    pub fn claim(&mut self, holds: bool, claim: impl Display, seen: impl Display) {
        self.claims += 1;
        if holds {
            self.line(&format!("  {} {claim}", self.paint(GOOD, "✔")));
        } else {
            let mark = self.paint(BAD, "✘ NOT SO:");
            self.line(&format!("  {mark} {claim} ({seen})"));
            self.broken.push(claim.to_string());
        }
    }

    /// How many claims were made, and those that did not hold.
    #[must_use]
    pub fn claims(&self) -> (usize, &[String]) {
        (self.claims, &self.broken)
    }

    fn answer_line(&self, caller: &Caller, row: &[Option<Answer>]) -> String {
        let glyph = |answer: &Option<Answer>| match answer.as_ref().map(|answer| &answer.seen) {
            None => self.paint(DIM, "·"),
            Some(Seen::Answer(team)) => {
                let style = if *team == caller.meant { GOOD } else { BAD };
                self.paint(style, if *team == Team::A { "A" } else { "B" })
            }
            Some(Seen::TimedOut) => self.paint(STOPPED, "×"),
            Some(Seen::Refused) => self.paint(STOPPED, "⊘"),
            Some(Seen::Other(_)) => self.paint(BAD, "!"),
        };
        let glyphs: Vec<String> = row.iter().map(glyph).collect();
        format!("    {:<35} {}  {}", caller.who, glyphs.join(""), summary(row))
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

/// Counts of what came, and the median latency.
fn summary(row: &[Option<Answer>]) -> String {
    let kinds = [
        (Seen::Answer(Team::A), "answered by A"),
        (Seen::Answer(Team::B), "answered by B"),
        (Seen::TimedOut, "timed out"),
        (Seen::Refused, "refused"),
    ];
    let seen = || row.iter().flatten().map(|answer| &answer.seen);
    let counted = kinds.into_iter().map(|(kind, words)| {
        let count = seen().filter(|seen| **seen == kind).count();
        (count, words.to_owned())
    });
    let others = seen().filter_map(|seen| match seen {
        Seen::Other(what) => Some((1, what.clone())),
        _ => None,
    });
    let parts = counted.chain(others).filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, words)| format!("{count:>2} {words}"));
    let median = median(row.iter().flatten());
    parts
        .chain(median.map(|median| format!("median {}", milliseconds(median))))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A reader who has seen enough (`| head`) is no reason to leave namespaces behind.
fn print(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

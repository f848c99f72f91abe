//! Printing: colours and live lines on a terminal that is wide enough, plain lines elsewhere. No
//! line is wider than the terminal, so that each is one row of it.

mod form;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Stdout, Write, stdout};

use clap::builder::styling::{AnsiColor, Style};
use comfy_table::Table;
use textwrap::Options;

use form::Form;

use crate::scenario::burst::{Played, median, milliseconds};
use crate::scenario::format::{Burst, Group};
use crate::traffic::{Answer, Outcome};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const STOPPED: Style = AnsiColor::Yellow.on_default();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// Where the demo is shown.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    form: Form,
    /// Lines of unfinished answers, which the next ones are drawn over.
    drawn: usize,
}

impl Screen<Stdout> {
    /// Standard output.
    pub fn of_stdout() -> Self {
        Self::new(stdout(), Form::of_stdout())
    }
}

impl<W: Write> Screen<W> {
    /// Prints there.
    pub const fn new(out: W, form: Form) -> Self {
        Self {
            out,
            form,
            drawn: 0,
        }
    }

    /// Columns that lines keep to.
    pub const fn width(&self) -> usize {
        self.form.width
    }

    /// A new part of the story.
    pub fn heading(&mut self, text: &str) {
        self.pause();
        let title = format!("━━ {text} ");
        let rule = self.width().saturating_sub(title.chars().count());
        for line in self.wrapped(&(title + &"━".repeat(rule)), "") {
            self.line(&self.paint(BOLD, &line));
        }
    }

    /// An empty line.
    pub fn pause(&mut self) {
        self.line("");
    }

    /// Paragraphs, filled anew. A line that begins with `$` is a command.
    pub fn say(&mut self, text: &str) {
        self.paragraphs(text, Style::new());
    }

    /// Paragraphs for readers who want details.
    pub fn detail(&mut self, text: &str) {
        self.paragraphs(text, DIM);
    }

    fn paragraphs(&mut self, text: &str, style: Style) {
        let mut words = String::new();
        for line in text.lines() {
            if !line.is_empty() && !line.starts_with(' ') {
                words = words + line + " ";
                continue;
            }
            self.paragraph(&words, style);
            words.clear();
            match line.strip_prefix("  $ ") {
                Some(command) => self.command(command),
                None => self.verbatim(line, style),
            }
        }
        self.paragraph(&words, style);
    }

    fn paragraph(&mut self, words: &str, style: Style) {
        if words.is_empty() {
            return;
        }
        for line in self.wrapped(words.trim_end(), "") {
            self.line(&self.paint(style, &line));
        }
    }

    /// Lines that stay lines.
    pub fn lines(&mut self, text: &str) {
        for line in text.lines() {
            self.verbatim(line, Style::new());
        }
    }

    fn verbatim(&mut self, line: &str, style: Style) {
        let begin = line.len() - line.trim_start().len();
        for part in self.wrapped(line, &" ".repeat(begin + 2)) {
            self.line(&self.paint(style, &part));
        }
    }

    /// Words beside a label.
    pub fn field(&mut self, label: &str, words: &str) {
        for line in self.wrapped(&format!("{label}{words}"), &" ".repeat(label.len())) {
            self.line(&line);
        }
    }

    /// A table whose `titles` stand out.
    pub fn table(&mut self, table: &Table, titles: &[&str]) {
        for line in table.lines() {
            let is_title = titles.iter().any(|title| line.contains(title));
            let style = if is_title { BOLD } else { Style::new() };
            self.line(&self.paint(style, &line));
        }
    }

    /// A command that is run now, as a user would type it.
    pub fn command(&mut self, text: &str) {
        let mut begin = "  $ ";
        for line in self.wrapped(&format!("{begin}{text}"), "    ") {
            let command = self.paint(COMMAND, &line[begin.len()..]);
            self.line(&format!("{begin}{command}"));
            begin = "    ";
        }
    }

    /// The answers so far, drawn over what was drawn before; where nothing is drawn over, only once
    /// they are complete.
    pub fn answers(&mut self, so_far: &Played<'_>) {
        let answers = &so_far.answers;
        let complete = answers.iter().flatten().all(Option::is_some);
        if !self.form.live && !complete {
            return;
        }
        let mut lines = Vec::new();
        let label = label_width(so_far.burst);
        for ((group, caller), row) in so_far.burst.callers().zip(answers) {
            lines.extend(self.answer_lines(group, &format!("{:<label$}", caller.who), row));
        }
        let mut text = String::new();
        if self.drawn > 0 {
            // To the first of these lines, and everything below is erased.
            text = format!("\x1b[{}A\x1b[J", self.drawn);
        }
        for line in &lines {
            text = text + line + "\n";
        }
        self.print(&text);
        self.drawn = if complete { 0 } else { lines.len() };
    }

    /// Something that has just been seen to be so, or not.
    pub fn claim(&mut self, holds: bool, claim: &str, seen: &str) {
        let (style, mark, text) = if holds {
            (GOOD, "✔", claim.to_owned())
        } else {
            (BAD, "✘ NOT SO:", format!("{claim} ({seen})"))
        };
        let begin = format!("  {mark} ");
        let indent = " ".repeat(begin.chars().count());
        let mut painted = format!("  {} ", self.paint(style, mark));
        for line in self.wrapped(&format!("{begin}{text}"), &indent) {
            let words: String = line.chars().skip(indent.len()).collect();
            self.line(&format!("{painted}{words}"));
            painted.clone_from(&indent);
        }
    }

    /// The calls of one caller and what became of them, side by side where there is room.
    fn answer_lines(&self, group: &Group, label: &str, row: &[Option<Answer>]) -> Vec<String> {
        let glyphs: String = row
            .iter()
            .map(|answer| self.glyph(group, answer.as_ref()))
            .collect();
        let label = format!("  {label}  ");
        let beside = label.chars().count();
        let after_calls = row.len() + 2;
        let mut lines = Vec::new();
        let mut begin = label;
        if beside + after_calls + SUMMARY > self.width() {
            lines.extend(self.wrapped(begin.trim_end(), "  "));
            begin = " ".repeat(4);
        }
        let indent = begin.chars().count() + after_calls;
        let room = self.width().saturating_sub(indent).max(1);
        let mut calls = glyphs + "  ";
        for words in textwrap::wrap(&summary(row), room) {
            lines.push(format!("{begin}{calls}{words}"));
            begin = " ".repeat(indent);
            calls.clear();
        }
        if !calls.is_empty() {
            lines.push(begin + calls.trim_end());
        }
        lines
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
        if self.form.colours && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.into()
        }
    }

    /// The text in lines of the screen's width; those after the first begin with `indent`. A word
    /// that is wider is broken.
    fn wrapped(&self, text: &str, indent: &str) -> Vec<String> {
        if text.chars().count() <= self.width() {
            return vec![text.to_owned()];
        }
        let begin = text.len() - text.trim_start().len();
        let options = Options::new(self.width())
            .initial_indent(&text[..begin])
            .subsequent_indent(indent);
        let lines = textwrap::wrap(&text[begin..], options);
        lines.into_iter().map(Cow::into_owned).collect()
    }

    fn line(&mut self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Ignores a closed pipe (`| head`): the demo must still remove its namespaces.
    fn print(&mut self, text: &str) {
        let out = &mut self.out;
        let _: io::Result<()> = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Columns of the longest usual summary: `12 timed out, median 802 ms`.
const SUMMARY: usize = 27;

/// The width of the callers' column.
fn label_width(burst: &Burst) -> usize {
    let callers = burst.callers();
    let widths = callers.map(|(_, caller)| caller.who.chars().count());
    widths.max().unwrap_or_default()
}

/// Counts of each result, and the median latency.
fn summary(row: &[Option<Answer>]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for answer in row.iter().flatten() {
        let seen = match &answer.outcome {
            Outcome::Reply(pod) => format!("by {pod}"),
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

#[cfg(test)]
mod tests;

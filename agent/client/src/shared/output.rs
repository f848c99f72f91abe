//! How commands print: one value in the form that was asked for (`-o table|json|yaml`), tables and
//! lists.

use crate::shared::plain::{is_hidden, plain};
use crate::shared::screen::Screen;
use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::StyledStr;
use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use textwrap::core::display_width;

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

impl Output {
    /// The value as text without a newline at the end; `table` writes the form for people.
    ///
    /// Errors: none for the documents of this program, whose keys are all text.
    pub fn text<T: Serialize>(
        self,
        value: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table => table(value),
            Self::Json => {
                escaped(serde_json::to_string_pretty(value).context("cannot write JSON")?)
            }
            Self::Yaml => {
                let text = serde_saphyr::to_string(value).context("cannot write YAML")?;
                let text = text.trim_end().to_owned();
                // JSON is YAML.
                if text.contains(is_hidden_in_lines) {
                    return Self::Json.text(value, table);
                }
                text
            }
        })
    }
}

/// JSON with each control character and each invisible one as `\u` escapes: the same document, and
/// a terminal shows it as text.
pub fn escaped(json: String) -> String {
    if !json.contains(is_hidden_in_lines) {
        return json;
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hidden_in_lines(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_hidden_in_lines(character: char) -> bool {
    character != '\n' && is_hidden(character)
}

/// A table without lines. An empty header is left out. Where the screen is narrower, cells are
/// folded at spaces; a word stays whole.
pub fn table_on(
    screen: Screen,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).add_rows(rows);
    if !header.is_empty() {
        table.set_header(header);
    }
    let text = table.trim_fmt();
    let Some(width) = screen.width else {
        return text;
    };
    if screen.fits(&text) {
        return text;
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let words = longest_words(&table);
    for (column, word) in table.column_iter_mut().zip(words) {
        let with_padding = word.saturating_add(column.padding_width());
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(with_padding)));
    }
    table.trim_fmt()
}

/// The width of the longest word of each column.
fn longest_words(table: &Table) -> Vec<u16> {
    let mut widths = Vec::new();
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (number, cell) in row.cell_iter().enumerate() {
            let content = cell.content();
            let words = content.split_whitespace().map(display_width);
            let longest = u16::try_from(words.max().unwrap_or(0)).unwrap_or(u16::MAX);
            match widths.get_mut(number) {
                Some(width) => *width = longest.max(*width),
                None => widths.push(longest),
            }
        }
    }
    widths
}

/// Header of a column, and its cell in a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// The headers of columns.
pub fn headers<T>(columns: &[Column<T>]) -> Vec<&'static str> {
    columns.iter().map(|(header, _)| *header).collect()
}

/// The cells of the columns, a row for each item.
pub fn cells<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for item in items {
        rows.push(columns.iter().map(|(_, cell)| cell(item)).collect());
    }
    rows
}

/// A table with a row for each item, not folded.
pub fn columned<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> String {
    columned_on(Screen::default(), columns, items)
}

/// The same, folded as by [`table_on`].
pub fn columned_on<'a, T: 'a>(
    screen: Screen,
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> String {
    table_on(screen, &headers(columns), cells(columns, items))
}

/// A number of things: `1 node`, `2 nodes`.
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// `a, b and c`.
pub fn in_words(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The first `most` names and how many others there are of `all`: `a, b and 2 more`.
pub fn first(names: &[String], most: usize, all: usize) -> String {
    let shown = &names[..names.len().min(most)];
    match all.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `12 s`.
pub fn seconds(ms: u64) -> String {
    format!("{} s", ms / 1000)
}

/// A prefix and the text; empty if there is no text.
pub fn after(prefix: &str, text: Option<impl Display>) -> String {
    text.map(|text| format!("{prefix}{text}"))
        .unwrap_or_default()
}

/// The exit code that a command returned. For an error, prints it and returns the code `failed`.
pub fn exit(done: anyhow::Result<u8>, failed: u8) -> ExitCode {
    let code = done.unwrap_or_else(|error| {
        complain(&format!("epguard: {error:#}"));
        failed
    });
    code.into()
}

/// A new file that only its owner reads. An existing one, or a link, is left alone: who may run a
/// verb in the agent's pod shall not write where the agent may. Errors: it exists, or cannot be
/// made.
pub fn new_file(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path);
    file.with_context(|| format!("cannot make {}", path.display()))
}

/// Prints a text on standard output, without colours where there is no terminal. Errors: the output
/// fails, or its reader has left.
pub fn print(text: &str) -> anyhow::Result<()> {
    let styled = StyledStr::from(text.to_owned());
    let mut stdout = io::stdout();
    if is_coloured() {
        writeln!(stdout, "{}", styled.ansi())
    } else {
        writeln!(stdout, "{styled}")
    }?;
    Ok(())
}

/// The same; a reader that has left (`epguard lint | head`) is no error.
pub fn show(text: &str) -> anyhow::Result<()> {
    print(text).or_else(|error| {
        if is_unread(&error) {
            Ok(())
        } else {
            Err(error)
        }
    })
}

/// Whether standard output is a terminal that shows colours, and the user wants them
/// ([`NO_COLOR`](https://no-color.org)).
pub fn is_coloured() -> bool {
    let knows_colours = std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb");
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && knows_colours && !no_colour
}

/// Prints one line on standard error, with any text made plain. Without a reader it is lost.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Whether standard output has a reader (`drops -f | head` has none once that has ended).
#[cfg(unix)]
pub fn is_read() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = rustix::stdio::stdout();
    let mut output = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
    let _ = poll(&mut output, Some(&Timespec::default()));
    !output[0]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether standard output has a reader. Windows shows only to a writer that it has none.
#[cfg(not(unix))]
pub const fn is_read() -> bool {
    true
}

/// Whether an error is only that the reader of the output has left.
pub fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_output_form_has_the_same_content() {
        let value = BTreeMap::from([("address", vec!["10.0.0.1", "yes"])]);
        let text = |output: Output| {
            output
                .text(&value, |value| format!("{} rows", value.len()))
                .unwrap()
        };
        assert_eq!(text(Output::Table), "1 rows");
        assert_eq!(
            text(Output::Json),
            "{\n  \"address\": [\n    \"10.0.0.1\",\n    \"yes\"\n  ]\n}"
        );
        assert_eq!(text(Output::Yaml), "address:\n- \"10.0.0.1\"\n- \"yes\"");
    }

    #[test]
    fn a_table_folds_at_spaces_and_keeps_words_whole() {
        let rows = vec![vec![
            "worker-1.example".to_owned(),
            "one two three".to_owned(),
        ]];
        let table = |width| {
            let screen = Screen { width, full: false };
            table_on(screen, &["NODE", "SET BY"], rows.clone())
        };
        let wide = " NODE              SET BY\n worker-1.example  one two three";
        assert_eq!(table(None), wide);
        assert_eq!(table(Some(40)), wide);
        let folded =
            " NODE              SET BY\n worker-1.example  one two\n                   three";
        assert_eq!(table(Some(27)), folded);
        assert!(table(Some(5)).contains("worker-1.example  one\n"));
    }

    #[test]
    fn documents_are_exact_and_have_no_raw_control_characters() {
        let value = "a\u{1b}[2J\u{9b}2J\u{202e}\u{e0001}ä".to_owned();
        for output in [Output::Json, Output::Yaml] {
            let text = output.text(&value, Clone::clone).unwrap();
            assert!(!text.contains(is_hidden), "{text:?}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
        }
    }
}

//! How commands print: one value in the form that was asked for (`-o table|json|yaml`), tables and lists.

use anyhow::Context as _;
use clap::ValueEnum;
use comfy_table::{Table, presets::NOTHING};
use serde::Serialize;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

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
    pub fn text<T: Serialize>(self, value: &T, table: impl FnOnce(&T) -> String) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table => table(value),
            Self::Json => serde_json::to_string_pretty(value).context("cannot write JSON")?,
            Self::Yaml => {
                let text = serde_saphyr::to_string(value).context("cannot write YAML")?;
                text.trim_end().to_owned()
            }
        })
    }
}

/// A table without lines. An empty header is left out.
#[must_use]
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).add_rows(rows);
    if !header.is_empty() {
        table.set_header(header);
    }
    table.trim_fmt()
}

/// The same; if `nodes` is given, a last column names the nodes of each row.
#[must_use]
pub fn table_of_nodes(
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    nodes: Option<&[String]>,
) -> String {
    let Some(nodes) = nodes else {
        return table(header, rows);
    };
    let rows = rows.enumerate().map(|(number, mut row)| {
        row.push(nodes.get(number).cloned().unwrap_or_default());
        row
    });
    table(&[header, &["NODES"]].concat(), rows)
}

/// A number of things: `1 node`, `2 nodes`.
#[must_use]
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// `a, b and c`.
#[must_use]
pub fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A prefix and the text; empty if there is no text.
#[must_use]
pub fn after(prefix: &str, text: Option<impl Display>) -> String {
    text.map(|text| format!("{prefix}{text}")).unwrap_or_default()
}

/// The exit code that a command returned. For an error, prints it and returns the code `failed`.
#[must_use]
pub fn exit(done: anyhow::Result<u8>, failed: u8) -> ExitCode {
    let code = done.unwrap_or_else(|error| {
        eprintln!("epguard: {error:#}");
        failed
    });
    code.into()
}

/// A new file that only its owner reads. An existing one, or a link, is left alone: who may run a verb in the agent's pod
/// shall not write where the agent may. Errors: it exists, or cannot be made.
pub fn new_file(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path);
    file.with_context(|| format!("cannot make {}", path.display()))
}

/// Whether an error is only that the reader of the output has left (`epguard lint | head`).
#[must_use]
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
        let text = |output: Output| output.text(&value, |value| format!("{} rows", value.len())).unwrap();
        assert_eq!(text(Output::Table), "1 rows");
        assert_eq!(text(Output::Json), "{\n  \"address\": [\n    \"10.0.0.1\",\n    \"yes\"\n  ]\n}");
        assert_eq!(text(Output::Yaml), "address:\n- \"10.0.0.1\"\n- \"yes\"");
    }
}

//! The commands in the README and in the pages of docs/.

use std::fs;
use std::path::Path;

use crate::markdown::{Line, parts, variants};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Programs: a code span of two words or more that begins with one of them is a command.
const PROGRAMS: &str =
    "bpftool cargo conntrack ctr epguard ethtool helm ip jq k3s kind kubectl ln sysctl tc";

/// A line for a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Such as `docs/upgrade.md`.
    pub(crate) page: String,
    /// The heading above it.
    pub(crate) section: String,
    /// In one line, without a comment, and with or without its options in square brackets.
    pub(crate) text: String,
}

/// Each command, as often as the pages have it, in their order. Blocks and sentences count.
pub(crate) fn commands() -> Vec<Command> {
    let mut pages: Vec<String> = fs::read_dir(Path::new(ROOT).join("docs"))
        .unwrap()
        .map(|file| format!("docs/{}", file.unwrap().file_name().display()))
        .filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "md"))
        .collect();
    pages.sort();
    pages.insert(0, "README.md".to_owned());
    let mut all: Vec<Command> = Vec::new();
    for page in pages {
        let text = fs::read_to_string(Path::new(ROOT).join(&page)).unwrap();
        for Line { section, text, .. } in parts(&text).lines.into_iter().filter(is_command) {
            all.extend(variants(&text).into_iter().map(|text| Command {
                page: page.clone(),
                section: section.clone(),
                text,
            }));
        }
    }
    all
}

fn is_command(line: &Line) -> bool {
    let program = line.text.split(' ').next();
    !line.is_span || PROGRAMS.split(' ').any(|one| Some(one) == program)
}

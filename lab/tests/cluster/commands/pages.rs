//! The commands in the README and in the pages of docs/.

use std::fs;
use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Programs: a code span of two words or more that begins with one of them is a command.
const PROGRAMS: &str = "bpftool cargo conntrack ctr epguard ethtool helm ip jq k3s kind kubectl ln sysctl tc";

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
        for (section, line) in lines(&text) {
            let (page, section) = (&page, &section);
            all.extend(variants(&line).into_iter().map(|text| Command {
                page: page.clone(),
                section: section.clone(),
                text,
            }));
        }
    }
    all
}

/// The lines with commands, and the headings above them.
fn lines(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    let mut block: Option<String> = None;
    for (event, at) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                let heading = page[at].trim_matches(['#', ' ', '\n']);
                heading.clone_into(&mut section);
            }
            Event::Start(Tag::CodeBlock(kind)) if is_shell(&kind) => block = Some(String::new()),
            Event::Text(text) => block.iter_mut().for_each(|block| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => {
                let text = block.take().unwrap_or_default().replace("\\\n", " ");
                // A block that shows output.
                if !text.starts_with("VERDICT") {
                    let lines = text.lines().map(without_comment);
                    let lines = lines.filter(|line| !line.is_empty());
                    found.extend(lines.map(|line| (section.clone(), line.to_owned())));
                }
            }
            Event::Code(span) => {
                let words: Vec<&str> = span.split_whitespace().collect();
                if words.len() > 1 && PROGRAMS.split(' ').any(|program| program == words[0]) {
                    found.push((section.clone(), words.join(" ")));
                }
            }
            _ => {}
        }
    }
    found
}

fn is_shell(kind: &CodeBlockKind<'_>) -> bool {
    match kind {
        CodeBlockKind::Indented => true,
        CodeBlockKind::Fenced(language) => ["", "sh", "bash", "shell", "console"].contains(&&**language),
    }
}

/// A comment begins with `#` behind a space. No command of the pages has that in quotes.
fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or_default().trim()
}

/// A synopsis without the parts in square brackets, with them, and with the outer ones only. Brackets in quotes stay.
fn variants(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for kept in 0..3 {
        let (mut depth, mut is_quoted) = (0, false);
        let mut variant = String::new();
        for c in line.chars() {
            is_quoted ^= c == '\'';
            match c {
                '[' if !is_quoted => depth += 1,
                ']' if !is_quoted => depth -= 1,
                c if depth <= kept => variant.push(c),
                _ => {}
            }
        }
        let variant = variant.split_whitespace().collect::<Vec<_>>().join(" ");
        if !all.contains(&variant) {
            all.push(variant);
        }
    }
    all
}

#[test]
fn a_page_has_the_commands_of_its_blocks_and_sentences() {
    let page = "# One\n\nSee `epguard why IP[:PORT]` and `epguard`.\n\n    epguard status   # all\n    long \\\n      line '[\"#1\"]'\n\n## Two\n\n```yaml\nno: command\n```\n\n    VERDICT of a command\n\n| `jq .a \\| cat` |\n|---|\n";
    let found = lines(page);
    let expected = [
        ("One", "epguard why IP[:PORT]"),
        ("One", "epguard status"),
        ("One", "long    line '[\"#1\"]'"),
        ("Two", "jq .a | cat"),
    ];
    let found: Vec<_> = found.iter().map(|(section, line)| (&**section, &**line)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_synopsis_is_run_with_and_without_its_options() {
    assert_eq!(variants("a '.b[] | c'"), ["a '.b[] | c'"]);
    assert_eq!(variants("a IP[:PORT]"), ["a IP", "a IP:PORT"]);
    assert_eq!(variants("a [--b [c/d]] [-e]"), ["a", "a --b -e", "a --b c/d -e"]);
}

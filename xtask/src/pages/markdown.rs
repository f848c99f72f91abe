//! The parts of a Markdown page that checks read: code, headings and links.
//! `lab/tests/cluster/commands` reads them with this file, too.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page in its parts, each in order.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// What may be commands, in blocks for a shell and in backticks.
    pub(super) lines: Vec<Line>,
    /// Text in backticks.
    pub(super) spans: Vec<String>,
    /// Headings as written, without `#`.
    pub(super) headings: Vec<String>,
    /// Targets of links and images.
    pub(super) links: Vec<String>,
}

/// A line for a shell, without a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The heading above it.
    pub(super) section: String,
    /// Continued lines are one.
    pub(super) text: String,
    /// In backticks, of several words. It may be no command.
    pub(super) is_span: bool,
}

/// Reads a page.
pub(super) fn parts(page: &str) -> Parts {
    let mut parts = Parts::default();
    let mut block: Option<String> = None;
    for (event, at) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        let section = parts.headings.last().cloned().unwrap_or_default();
        match event {
            Event::Start(Tag::Heading { .. }) => {
                parts
                    .headings
                    .push(page[at].trim_matches(['#', ' ', '\n']).to_owned());
            }
            Event::Start(Tag::CodeBlock(kind)) if is_shell(&kind) => block = Some(String::new()),
            Event::Text(text) => block.iter_mut().for_each(|block| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => {
                let text = block.take().unwrap_or_default().replace("\\\n", " ");
                if text.starts_with("VERDICT") {
                    // The block shows output.
                    continue;
                }
                for line in text.lines().map(without_comment) {
                    if !line.is_empty() {
                        parts.lines.push(Line {
                            section: section.clone(),
                            text: line.to_owned(),
                            is_span: false,
                        });
                    }
                }
            }
            Event::Code(text) => {
                let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if words.contains(' ') {
                    parts.lines.push(Line {
                        section,
                        text: words,
                        is_span: true,
                    });
                }
                parts.spans.push(text.into_string());
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                parts.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    parts
}

fn is_shell(kind: &CodeBlockKind<'_>) -> bool {
    match kind {
        CodeBlockKind::Indented => true,
        CodeBlockKind::Fenced(language) => {
            ["", "sh", "bash", "shell", "console"].contains(&&**language)
        }
    }
}

/// A comment begins with `#` behind a space. No command of the pages has that in quotes.
fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or_default().trim()
}

/// A synopsis without the parts in square brackets, with them, and with the outer ones only.
/// Brackets in quotes stay.
#[cfg(test)]
pub(super) fn variants(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for kept in 0..3 {
        let mut depth = 0;
        let mut is_quoted = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_prose_headings_and_links_are_distinguished() {
        let page = "# One `two`\n\nSee [a](b.md#c) and `d\ne`.\n    continued [f](g)\n\n    code [h](i) `j`   # all\n    long \\\n      line '[\"#1\"]'\n\n## Two\n\n```yaml\nno: command\n```\n\n```sh\nfenced\n```\n\n    VERDICT of a command\n\n| `k \\| l` |\n|---|\n";
        let parts = parts(page);
        assert_eq!(parts.headings, ["One `two`", "Two"]);
        assert_eq!(parts.links, ["b.md#c", "g"]);
        assert_eq!(parts.spans, ["two", "d e", "k | l"]);
        let lines = parts
            .lines
            .iter()
            .map(|line| (&*line.section, &*line.text, line.is_span));
        let expected = [
            ("One `two`", "d e", true),
            ("One `two`", "code [h](i) `j`", false),
            ("One `two`", "long    line '[\"#1\"]'", false),
            ("Two", "fenced", false),
            ("Two", "k | l", true),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_synopsis_stands_for_commands_with_and_without_its_options() {
        assert_eq!(variants("a '.b[] | c'"), ["a '.b[] | c'"]);
        assert_eq!(variants("a IP[:PORT]"), ["a IP", "a IP:PORT"]);
        assert_eq!(
            variants("a [--b [c/d]] [-e]"),
            ["a", "a --b -e", "a --b c/d -e"]
        );
    }
}

//! The parts of a Markdown page that the checks read: code blocks, code spans, headings and links.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page in its parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Fenced and indented blocks.
    pub(super) blocks: Vec<Block>,
    /// Text in backticks, in order.
    pub(super) spans: Vec<String>,
    /// Headings as written, without `#`.
    pub(super) headings: Vec<String>,
    /// Targets of links and images, in order.
    pub(super) links: Vec<String>,
}

/// A code block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The word after the fence; none for an indented block.
    pub(super) language: Option<String>,
    /// Without indentation.
    pub(super) text: String,
}

/// Reads a page.
pub(super) fn parts(page: &str) -> Parts {
    let mut parts = Parts::default();
    let mut open = None;
    for (event, at) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match (event, &mut open) {
            (Event::Start(Tag::CodeBlock(kind)), open) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => Some(language.into_string()),
                    CodeBlockKind::Indented => None,
                };
                *open = Some(Block { language, text: String::new() });
            }
            (Event::Text(text), Some(block)) => block.text.push_str(&text),
            (Event::End(TagEnd::CodeBlock), open) => parts.blocks.extend(open.take()),
            (Event::Start(Tag::Heading { .. }), _) => {
                let heading = page[at].trim_start_matches('#').trim();
                parts.headings.push(heading.to_owned());
            }
            (Event::Code(text), _) => parts.spans.push(text.into_string()),
            (Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }), _) => {
                parts.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_prose_headings_and_links_are_distinguished() {
        let page = "# One `two`\n\nSee [a](b.md#c) and `d\ne`.\n    continued [f](g)\n\n    code [h](i) `j`\n      more\n\n```sh\nfenced\n```\n\n| k |\n|---|\n| `k \\| l` |\n";
        let parts = parts(page);
        assert_eq!(parts.headings, ["One `two`"]);
        assert_eq!(parts.links, ["b.md#c", "g"]);
        assert_eq!(parts.spans, ["two", "d e", "k | l"]);
        let blocks: Vec<_> =
            parts.blocks.iter().map(|block| (block.language.as_deref(), &*block.text)).collect();
        let expected = [(None, "code [h](i) `j`\n  more\n"), (Some("sh"), "fenced\n")];
        assert_eq!(blocks, expected);
    }
}

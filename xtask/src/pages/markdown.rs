//! The parts of a Markdown page that the checks read: code blocks, code spans, headings and links.

/// A page in its parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Fenced and indented blocks.
    pub(super) blocks: Vec<Block>,
    /// Text in backticks, in order. `\|`, which a table needs, is `|` here.
    pub(super) spans: Vec<String>,
    /// Text of headings, without `#`.
    pub(super) headings: Vec<String>,
    /// Targets of links and images, in order.
    pub(super) links: Vec<String>,
}

/// A code block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// What follows the fence; none for an indented block.
    pub(super) language: Option<String>,
    /// Without indentation.
    pub(super) text: String,
}

/// Reads a page.
pub(super) fn parts(page: &str) -> Parts {
    let mut parts = Parts::default();
    let prose = without_blocks(page, &mut parts.blocks);
    for paragraph in prose.split("\n\n") {
        for line in paragraph.lines() {
            let heading = line.trim_start_matches('#');
            if heading.len() < line.len() && heading.starts_with(' ') {
                parts.headings.push(heading.trim().to_owned());
            }
        }
        let mut text = String::new();
        for (index, piece) in paragraph.split('`').enumerate() {
            if index % 2 == 1 {
                parts.spans.push(piece.replace('\n', " ").replace("\\|", "|"));
            } else {
                text.push_str(piece);
            }
        }
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next());
        parts.links.extend(targets.map(str::to_owned));
    }
    parts
}

/// The page's other lines; each block leaves an empty one. An indented line is code after an empty line or after code.
fn without_blocks(page: &str, blocks: &mut Vec<Block>) -> String {
    let mut prose = String::new();
    let (mut fenced, mut indented, mut after_blank) = (false, false, true);
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fenced = !fenced;
            if fenced {
                let language = Some(language.trim().to_owned());
                blocks.push(Block {
                    language,
                    text: String::new(),
                });
            }
            prose.push('\n');
            continue;
        }
        let code = if fenced {
            Some(line)
        } else {
            line.strip_prefix("    ").filter(|_| indented || after_blank)
        };
        if code.is_some() && !fenced && !indented {
            blocks.push(Block::default());
        }
        indented = code.is_some() && !fenced;
        after_blank = line.trim().is_empty();
        match (code, blocks.last_mut()) {
            (Some(code), Some(block)) => {
                block.text.extend([code, "\n"]);
                prose.push('\n');
            }
            _ => prose.extend([line, "\n"]),
        }
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_prose_headings_and_links_are_told_apart() {
        let page = "# One `two`\n\nSee [a](b.md#c) and `d\ne`.\n    continued [f](g)\n\n    code [h](i) `j`\n      more\n\n```sh\nfenced\n```\n| `k \\| l` |\n";
        let parts = parts(page);
        assert_eq!(parts.headings, ["One `two`"]);
        assert_eq!(parts.links, ["b.md#c", "g"]);
        assert_eq!(parts.spans, ["two", "d e", "k | l"]);
        let blocks: Vec<_> = parts
            .blocks
            .iter()
            .map(|block| (block.language.as_deref(), &*block.text))
            .collect();
        let expected = [(None, "code [h](i) `j`\n  more\n"), (Some("sh"), "fenced\n")];
        assert_eq!(blocks, expected);
    }
}

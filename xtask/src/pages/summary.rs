//! The book's table of contents.

use std::collections::BTreeMap;

use super::SUMMARY;
use super::markdown::parts;
use crate::files::File;

/// A line for each page of `docs/` that the table of contents does not list exactly once.
pub(super) fn errors(pages: &[File]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|page| page.name == SUMMARY) else {
        return vec![format!("{SUMMARY} is missing: the book's table of contents")];
    };
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for link in parts(&summary.text).links {
        *held.entry(format!("docs/{link}")).or_default() += 1;
    }
    let in_docs = pages.iter().filter(|page| page.name.starts_with("docs/"));
    in_docs
        .filter(|page| page.name != SUMMARY)
        .filter_map(|page| match held.get(&page.name) {
            Some(1) => None,
            Some(times) => Some(format!("{SUMMARY} lists {} {times} times", page.name)),
            None => Some(format!("{SUMMARY} does not list {}", page.name)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, text: &str) -> File {
        File {
            name: name.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_page_that_is_missing_or_listed_twice_is_named() {
        let pages = [
            page("README.md", ""),
            page("docs/a.md", ""),
            page("docs/b.md", ""),
            page("docs/c.md", ""),
            page(SUMMARY, "# Contents\n\n- [A](a.md)\n- [B](b.md)\n- [B](b.md)\n"),
        ];
        let expected = [
            "docs/SUMMARY.md lists docs/b.md 2 times",
            "docs/SUMMARY.md does not list docs/c.md",
        ];
        assert_eq!(errors(&pages), expected);
        assert_eq!(errors(&pages[..1]).len(), 1);
    }
}

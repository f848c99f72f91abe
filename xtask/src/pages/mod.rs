//! The Markdown pages of the repository: their links work, and the book in `docs/` holds each page.
//!
//! The tests in `command_tests` check that the commands in the pages exist.

#[cfg(test)]
mod command_tests;
mod links;
mod markdown;
mod summary;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::files;
use crate::ladder::Count;
use crate::process::root;

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A Markdown file.
#[derive(Debug)]
pub(crate) struct Page {
    /// Relative to the repository's root.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Names broken links and anchors, and pages of `docs/` that the book lacks or holds twice.
pub(crate) fn check() -> Result<Count> {
    let pages = all()?;
    let mut found = links::broken(&pages, root());
    found.extend(summary::errors(&pages));
    for error in &found {
        println!("{error}");
    }
    Ok(Count {
        passed: found.is_empty().into(),
        failed: u32::try_from(found.len()).unwrap_or(u32::MAX),
    })
}

/// All pages, sorted by name.
pub(crate) fn all() -> Result<Vec<Page>> {
    let files = files::below(root(), "md")?;
    files.iter().map(|file| page(file)).collect()
}

fn page(file: &Path) -> Result<Page> {
    let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok(Page { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_and_the_pages_of_docs_and_lab_are_found() {
        let names: Vec<String> = all().unwrap().into_iter().map(|page| page.name).collect();
        let recording = "lab/traces/h-crashloop/README.md";
        for name in ["README.md", "docs/limits.md", "lab/SCENARIOS.md", recording] {
            assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
        }
    }

    #[test]
    fn every_link_leads_to_a_page_or_heading_and_the_book_lists_each_page_once() {
        let count = check().unwrap();
        assert_eq!(count, Count { passed: 1, failed: 0 });
    }
}

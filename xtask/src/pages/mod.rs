//! The Markdown pages of the repository: that their links lead somewhere, and that the book in `docs/` holds each page.
//!
//! The tests in `commands` check that what the pages tell a reader to type exists.

#[cfg(test)]
mod commands;
mod links;
mod markdown;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ladder::Count;
use crate::process::root;

/// Folders with pages; the first is the repository's root.
const FOLDERS: [&str; 4] = ["", "docs", "lab", "lab/traces"];

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A Markdown file.
#[derive(Debug)]
pub(crate) struct Page {
    /// Relative to the repository's root.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Names links and anchors that lead nowhere, and pages of `docs/` that the book lacks or holds twice.
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
    let mut files = Vec::new();
    for folder in FOLDERS.map(|folder| root().join(folder)) {
        files.extend(markdown_in(&folder)?);
    }
    files.sort();
    files.iter().map(|file| page(file)).collect()
}

fn markdown_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    Ok(files
        .filter(|file| file.extension().is_some_and(|end| end == "md"))
        .collect())
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
        for name in ["README.md", "docs/limits.md", "lab/SCENARIOS.md"] {
            assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
        }
    }

    #[test]
    fn every_link_leads_to_a_page_or_heading_and_the_book_holds_each_page_once() {
        let count = check().unwrap();
        assert_eq!(count, Count { passed: 1, failed: 0 });
    }
}

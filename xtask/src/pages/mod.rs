//! The Markdown pages of the repository: their links work.
//!
//! The tests in `names` check that the commands in the pages exist.

mod links;
mod markdown;
#[cfg(test)]
mod names;

use anyhow::Result;

use crate::files::{File, read_all};
use crate::process::root;

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Broken links and anchors.
pub(crate) fn check() -> Result<Vec<String>> {
    Ok(links::broken(&all()?, root()))
}

/// All pages, sorted by name.
fn all() -> Result<Vec<File>> {
    read_all("", "md")
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
    fn every_link_leads_to_a_page_or_heading() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }
}

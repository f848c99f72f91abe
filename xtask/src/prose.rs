//! Words that the documentation does without: a reader asks who or what is meant.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ladder::Count;
use crate::process::root;

/// Lower case. Each stands for a pod, a program or a person that has a name.
const BANNED: [&str; 5] = ["nobody", "somebody", "whoever", "whomever", "whatever"];

/// The pages of the repository.
const FOLDERS: [&str; 2] = ["", "docs"];

/// Names the lines of Markdown pages that hold a banned word outside of code.
pub(crate) fn check() -> Result<Count> {
    let mut failed = 0;
    for page in pages(root())? {
        let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
        for (line, word) in banned(&text) {
            let name = page.strip_prefix(root()).unwrap_or(&page).display();
            println!("{name}:{line}: \"{word}\": name the pod, program or person");
            failed += 1;
        }
    }
    Ok(Count {
        passed: (failed == 0).into(),
        failed,
    })
}

fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let files = entries.flatten().map(|entry| entry.path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|end| end == "md")));
    }
    pages.sort();
    Ok(pages)
}

/// The number of each line with a banned word, and the word. Code in backticks or indented is left out.
fn banned(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let prose = if line.starts_with("    ") {
            String::new()
        } else {
            prose.to_lowercase()
        };
        let words = prose.split(|c: char| !c.is_alphabetic());
        found.extend(
            words
                .filter_map(|word| BANNED.into_iter().find(|banned| *banned == word))
                .map(|word| (number, word)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_with_their_line_and_code_is_left_out() {
        let text =
            "Nobody knows.\n`nobody` runs it\n    somebody\na body\nto somebody's pod, whoever it is\n";
        assert_eq!(banned(text), [(1, "nobody"), (5, "somebody"), (5, "whoever")]);
    }

    #[test]
    fn the_readme_and_the_pages_in_docs_are_checked() {
        let pages = pages(root()).unwrap();
        for page in ["README.md", "docs/limits.md"] {
            assert!(pages.contains(&root().join(page)), "{page}");
        }
    }
}

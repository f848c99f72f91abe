//! The length of source files: 300 lines, tests included. A longer one holds more than one concept.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ladder::Count;
use crate::process::root;

const MOST_LINES: usize = 300;

/// Counts the `.rs` files within the limit, and names the others.
pub(crate) fn check_lengths() -> Result<Count> {
    let mut count = Count::default();
    for file in sources(root())? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let lines = text.lines().count();
        if lines <= MOST_LINES {
            count.passed += 1;
        } else {
            let name = file.strip_prefix(root()).unwrap_or(&file).display();
            println!("{name} has {lines} lines, {MOST_LINES} are allowed: split it by concept");
            count.failed += 1;
        }
    }
    // One check for any number of files.
    Ok(Count {
        passed: (count.failed == 0).into(),
        failed: count.failed,
    })
}

/// The `.rs` files of a folder and its subfolders, except built and hidden ones.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    below(folder, "rs")
}

/// The files with this extension in a folder and its subfolders, except built and hidden ones, sorted.
pub(crate) fn below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(below(&path, extension)?);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_contain_this_file_and_no_build_output() {
        let found = sources(root()).unwrap();
        assert!(found.contains(&root().join("xtask/src/files.rs")));
        assert!(!found.iter().any(|file| file.starts_with(root().join("target"))));
    }
}

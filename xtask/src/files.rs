//! The length of source files: 300 lines, tests included. A longer one holds more than one concept.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ladder::Count;
use crate::process::root;

const MOST_LINES: usize = 300;

/// Counts the `.rs` files that keep to the limit, and names those that do not.
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
    // One check, whatever the number of files.
    Ok(Count {
        passed: (count.failed == 0).into(),
        failed: count.failed,
    })
}

/// The `.rs` files of a folder and of those in it, without what is built or hidden.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_among_the_sources_and_nothing_built_is() {
        let found = sources(root()).unwrap();
        assert!(found.contains(&root().join("xtask/src/files.rs")));
        assert!(!found.iter().any(|file| file.starts_with(root().join("target"))));
    }
}

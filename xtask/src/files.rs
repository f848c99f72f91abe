//! The repository's text files, and folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::root;

/// Folders that cargo and npm make.
const MADE: [&str; 2] = ["target", "node_modules"];

/// A text file.
#[derive(Debug)]
pub(crate) struct File {
    /// The path from the repository's root.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The files with this extension in a folder of the repository and its subfolders, except built and
/// hidden ones, sorted.
pub(crate) fn read_all(folder: &str, extension: &str) -> Result<Vec<File>> {
    let files = below(&root().join(folder), extension)?;
    files.iter().map(|file| read(file)).collect()
}

/// Reads a file. Errors: it cannot be read, or is no text.
pub(crate) fn read(file: &Path) -> Result<File> {
    let name = file
        .strip_prefix(root())
        .unwrap_or(file)
        .display()
        .to_string();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Ok(File { name, text })
}

fn below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !MADE.contains(&&*name) && !name.starts_with('.') {
            found.extend(below(&path, extension)?);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The paths in a folder, sorted.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found =
        paths_in(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    found.sort();
    Ok(found)
}

fn paths_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Removes a folder, if it is there.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_contain_this_file_and_no_build_output() {
        let found = read_all("", "rs").unwrap();
        assert!(found.iter().any(|file| file.name == "xtask/src/files.rs"));
        assert!(!found.iter().any(|file| file.name.starts_with("target")));
    }
}

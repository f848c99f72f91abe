//! Files and folders named on a command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The paths for which `is_one` holds, and for each other one what is `wanted` in that folder, in order of the names. `what`
/// is for errors.
pub fn named(
    paths: &[PathBuf],
    what: &str,
    is_one: impl Fn(&Path) -> bool,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if is_one(path) {
            all.push(path.clone());
            continue;
        }
        let entries = path.read_dir();
        let entries = entries.with_context(|| format!("{}: no such {what}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inside.retain(|path| wanted(path));
        inside.sort();
        anyhow::ensure!(!inside.is_empty(), "{}: neither a {what} nor a folder with one", path.display());
        all.append(&mut inside);
    }
    Ok(all)
}

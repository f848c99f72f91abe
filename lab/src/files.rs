//! Files and folders: those named on a command line, and those that a killed process has left.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The paths for which `is_one` holds, and for each other one what is `wanted` in that folder, in
/// order of the names. `what` is for errors.
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
        let entries = path
            .read_dir()
            .with_context(|| format!("{}: no such {what}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inside.retain(|path| wanted(path));
        inside.sort();
        anyhow::ensure!(
            !inside.is_empty(),
            "{}: neither a {what} nor a folder with one",
            path.display()
        );
        all.append(&mut inside);
    }
    Ok(all)
}

/// `PREFIX<pid>-<serial>`: a later process can remove what a killed one has left. Each call returns
/// another name.
pub fn own_name(prefix: &str) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{serial}", std::process::id())
}

/// The entries of a directory whose [`own_name`] has this prefix and the id of a process that no
/// longer runs.
pub fn leftovers(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let owner = entry
            .file_name()
            .to_str()
            .and_then(|name| owner(name, prefix));
        owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
    left.map(|entry| entry.path()).collect()
}

fn owner(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_namespace_is_in_its_name() {
        assert_eq!(owner("epg4711-3-node-a", "epg"), Some(4711));
        assert_eq!(owner("epg4711", "epg"), None);
        assert_eq!(owner("epguard-test", "epg"), None);
        assert_eq!(owner("cni-1234", "epg"), None);
    }
}

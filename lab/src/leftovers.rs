//! Names that contain the id of this process, so that a later process can remove what a killed one has left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// `PREFIX<pid>-<serial>`. Each call returns another name.
pub fn name(prefix: &str) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{serial}", std::process::id())
}

/// The entries of a directory whose [`name`] has this prefix and the id of a process that no longer runs.
pub fn find(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let owner = entry.file_name().to_str().and_then(|name| owner(name, prefix));
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

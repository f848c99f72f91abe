//! Processes outside of all cgroups that are hooked: in the root of cgroup v2 itself.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the root is searched. A node has a hundred kernel threads there.
const INTERVAL: Duration = Duration::from_mins(1);

/// The result of the last search.
#[derive(Debug, Default)]
pub struct Outside {
    looked: Option<Instant>,
    found: Vec<String>,
}

impl Outside {
    /// Searches the root, unless it did so within the interval.
    pub fn look(&mut self, root: &Path) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL) {
            self.looked = Some(Instant::now());
            self.found = processes(root);
        }
    }

    /// The processes found last, such as `sshd (812)`, in the order of the kernel's list.
    pub fn found(&self) -> &[String] {
        &self.found
    }
}

/// Whether user-space processes of this network namespace are in the cgroup itself, not below it.
#[must_use]
pub fn holds_processes(cgroup: &Path) -> bool {
    !processes(cgroup).is_empty()
}

/// Processes in the cgroup itself and in this network namespace, without kernel threads. In a container without the
/// host's process ids (`hostPID`) the kernel shows each as 0, and none is found.
fn processes(cgroup: &Path) -> Vec<String> {
    let Some(own) = network_namespace("thread-self") else {
        return vec![];
    };
    let listed = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    listed
        .lines()
        .filter(|pid| *pid != "0" && has_command_line(pid) && network_namespace(pid) == Some(own))
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} ({pid})", name.trim_end())
        })
        .collect()
}

/// Kernel threads have no command line.
fn has_command_line(pid: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Inode number of a process' network namespace.
fn network_namespace(pid: &str) -> Option<u64> {
    let metadata = fs::metadata(format!("/proc/{pid}/ns/net"));
    metadata.ok().map(|metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_command_line_in_this_network_namespace_is_named() {
        let directory = std::env::temp_dir().join(format!("epguard-outside-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let own = std::process::id();
        fs::write(directory.join("cgroup.procs"), format!("0\n{own}\n4194305\n")).unwrap();
        let found = processes(&directory);
        fs::remove_dir_all(directory).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(&format!(" ({own})")), "{found:?}");
    }
}

//! The lab process's own cgroup.
//!
//! The agent follows sockets of processes in the children of the cgroup2 mount's root, and not of those in the root
//! itself. The lab's "processes on the node" are threads and children of this process, so it leaves the root.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use epguard::daemon::args::cgroup2_mount;

use super::socket_root::remove;
use crate::leftovers;

/// The directory above the cgroup that the process was moved to; none if it already was in one below the root.
static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();

const PREFIX: &str = "epguard-lab-";

/// The cgroup in it that holds the processes.
const PROCESSES: &str = "processes";

/// The directory that the lab's agent uses as the root of cgroup v2. With it the agent does not hook cgroups of other labs
/// on this machine, whose changes make an agent drop its socket entries. None: the real root.
pub fn cgroup_root() -> Option<&'static Path> {
    OWN.get()?.as_deref()
}

/// Moves this process, with all its threads, out of the root cgroup into one that is removed when the process exits.
/// Runs once; processes started later are in that cgroup too. A failure is printed: then the agent of the lab follows no
/// socket of this process.
pub(super) fn leave_root() {
    OWN.get_or_init(|| {
        enter().unwrap_or_else(|error| {
            eprintln!(
                "epguard-lab: cannot leave the root cgroup, so the agent may not follow this process' sockets: {error:#}"
            );
            None
        })
    });
}

fn enter() -> Result<Option<PathBuf>> {
    let own = fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
    if !own.lines().any(|line| line == "0::/") {
        return Ok(None);
    }
    let root = cgroup2_mount()?;
    // The kernel refuses to remove those that still have a process.
    for left in leftovers::find(&root, PREFIX) {
        remove(&left);
    }
    let cgroup = root.join(leftovers::name(PREFIX));
    let processes = cgroup.join(PROCESSES);
    fs::create_dir_all(&processes).with_context(|| format!("cannot make {}", processes.display()))?;
    move_to(&processes)?;
    // SAFETY: the function needs nothing of a thread or of the lab.
    unsafe { libc::atexit(return_to_root) };
    Ok(Some(cgroup))
}

/// A cgroup is removed only if no process is in it.
extern "C" fn return_to_root() {
    if let Some(Some(cgroup)) = OWN.get()
        && let Some(root) = cgroup.parent()
        && move_to(root).is_ok()
    {
        remove(cgroup);
    }
}

fn move_to(cgroup: &Path) -> Result<()> {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())
        .with_context(|| format!("cannot move this process to {}", cgroup.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root: moves this process to another cgroup"]
    fn a_lab_process_and_its_children_are_below_the_root_of_cgroup_v2() {
        leave_root();
        let cgroup = |pid: &str| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let is_below = |text: &str| {
            text.lines()
                .any(|line| line.starts_with("0::/") && line != "0::/")
        };
        assert!(is_below(&cgroup("self")), "{}", cgroup("self"));
        let child = std::process::Command::new("cat")
            .arg("/proc/self/cgroup")
            .output();
        let child = String::from_utf8(child.unwrap().stdout).unwrap();
        assert!(is_below(&child), "{child}");
    }
}

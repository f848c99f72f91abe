//! Options about cgroups.

use crate::kernel::datapath::{Scope, holds_processes};
use anyhow::Context as _;
use clap::Args;
use std::path::PathBuf;

/// Whose sockets are followed.
#[derive(Debug, Args)]
pub struct CgroupArgs {
    /// The one cgroup whose processes are followed [default: each cgroup in the root; the root itself if processes are there]
    #[arg(long, value_name = "PATH", conflicts_with = "cgroup_root")]
    pub cgroup: Option<PathBuf>,
    /// Root of cgroup v2: processes of all cgroups in it are followed, but never its own [default: the first cgroup2 mount]
    #[arg(long, value_name = "PATH")]
    pub cgroup_root: Option<PathBuf>,
}

impl CgroupArgs {
    /// The cgroups that the options select. Without options, the cgroup2 mount is searched. Some nodes keep processes
    /// in the root itself, such as one without systemd or a kubelet's cgroups: there only a program at the root sees
    /// them.
    pub fn scope(&self) -> anyhow::Result<Scope> {
        if let Some(path) = &self.cgroup {
            return Ok(Scope::Only(path.clone()));
        }
        if let Some(root) = &self.cgroup_root {
            return Ok(Scope::ChildrenOf(root.clone()));
        }
        let root = cgroup2_mount()?;
        Ok(if holds_processes(&root) {
            Scope::Only(root)
        } else {
            Scope::ChildrenOf(root)
        })
    }
}

/// The path where cgroup2 is mounted. Without a mount, the error names the remedy.
pub fn cgroup2_mount() -> anyhow::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    cgroup2_in(&mounts).context("no cgroup2 mount in /proc/mounts: mount one, or pass --cgroup-root PATH")
}

/// Fields of /proc/mounts: device, path, type, options.
fn cgroup2_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| path.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cgroup2_mount_is_found_beside_version_1() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\nbroken\n";
        assert_eq!(cgroup2_in(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_in("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn one_cgroup_is_hooked_itself_and_a_root_by_its_children() {
        let only = CgroupArgs {
            cgroup: Some("/c/one".into()),
            cgroup_root: None,
        };
        assert_eq!(only.scope().unwrap(), Scope::Only("/c/one".into()));
        let root = CgroupArgs {
            cgroup: None,
            cgroup_root: Some("/c".into()),
        };
        assert_eq!(root.scope().unwrap(), Scope::ChildrenOf("/c".into()));
    }
}

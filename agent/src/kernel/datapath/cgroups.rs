//! The cgroups where socket load balancers attach.

use super::{bpf, programs};
use anyhow::{Context as _, Result};
use aya_obj::generated::{BPF_F_ALLOW_MULTI, bpf_attach_type};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// A directory of cgroup2: `given` itself, or a mount below it, as beside version 1; without `given` the first mount. `None`:
/// there is none, so that no program can attach to one either.
#[must_use]
pub fn find_cgroup2(given: Option<&Path>) -> Option<PathBuf> {
    if let Some(given) = given.filter(|given| is_cgroup2(given)) {
        return Some(given.to_owned());
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    cgroup2_in(&mounts, given.unwrap_or(Path::new("/")))
}

/// Fields of /proc/mounts: device, path, type, options.
fn cgroup2_in(mounts: &str, below: &Path) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (Path::new(fields.next()?), fields.next()?);
        (kind == "cgroup2" && path.starts_with(below)).then(|| path.to_owned())
    })
}

/// The children of a cgroup that are there now.
pub fn children(cgroup: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list the cgroups in {}", cgroup.display());
    let mut children = Vec::new();
    for entry in fs::read_dir(cgroup).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            children.push(entry.path());
        }
    }
    Ok(children)
}

/// Describes a program that another project attached to this cgroup, or above it, without `BPF_F_ALLOW_MULTI`.
///
/// The kernel does not run such a program in a cgroup that has programs of its own (`compute_effective_progs` in
/// kernel/bpf/cgroup.c), so beside it there must be none of ours.
pub fn exclusive_program(cgroup: &Path, hooks: &[bpf_attach_type]) -> Result<Option<String>> {
    for path in cgroup.ancestors().take_while(|path| is_cgroup2(path)) {
        let cannot = || format!("cannot list the programs of {}", path.display());
        let directory = File::open(path).with_context(cannot)?;
        for hook in hooks {
            let (programs, flags) = bpf::cgroup_programs(directory.as_fd(), *hook).with_context(cannot)?;
            if let Some(id) = programs.first()
                && flags & BPF_F_ALLOW_MULTI == 0
            {
                let name = programs::name(*id).unwrap_or_default();
                return Ok(Some(format!("{name} (id {id}) at {}", path.display())));
            }
        }
    }
    Ok(None)
}

/// Whether the path is on a cgroup2 mount.
pub fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cgroup2_mount_is_found_beside_version_1_and_below_the_given_directory() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nsdelegate 0 0\nbroken\n\
                      cgroup2 /host/cgroup/unified cgroup2 rw 0 0\n";
        let found = |below| cgroup2_in(mounts, Path::new(below));
        assert_eq!(found("/"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("/host/cgroup"), Some("/host/cgroup/unified".into()));
        assert_eq!(found("/elsewhere"), None);
    }
}

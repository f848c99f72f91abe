//! Finds the cgroups with the programs of a socket load balancer, and checks that ours run before
//! and after them.

use crate::kernel::datapath::bpf::{Target, describe_program, program_name, query};
use crate::kernel::datapath::links::pinned_programs;
use crate::kernel::datapath::pins::Pins;
use anyhow::{Context as _, Result};
use aya_obj::generated::{BPF_F_ALLOW_MULTI, bpf_attach_type};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// Our own programs begin with this.
const OWN: &str = "epguard_";

/// A directory of cgroup2: `given` itself, or a mount below it, as beside version 1; without
/// `given` the first mount. `None`: there is none, so that no program can attach to one either.
pub fn find_cgroup2(given: Option<&Path>) -> Option<PathBuf> {
    if let Some(given) = given.filter(|given| is_cgroup2(given)) {
        return Some(given.to_owned());
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    cgroup2_in(&mounts, given.unwrap_or(Path::new("/")))
}

/// Fields of /proc/mounts: device, path, type, options.
fn cgroup2_in(mounts: &str, below: &Path) -> Option<PathBuf> {
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let Some(path) = fields.next()
            && fields.next() == Some("cgroup2")
            && Path::new(path).starts_with(below)
        {
            return Some(PathBuf::from(path));
        }
    }
    None
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

/// Describes a program that another project attached to this cgroup, or above it, without
/// `BPF_F_ALLOW_MULTI`.
///
/// The kernel does not run such a program in a cgroup that has programs of its own
/// (`compute_effective_progs` in kernel/bpf/cgroup.c), so beside it there must be none of ours.
pub fn exclusive_program(cgroup: &Path, hooks: &[bpf_attach_type]) -> Result<Option<String>> {
    for path in cgroup.ancestors().take_while(|path| is_cgroup2(path)) {
        for hook in hooks {
            let (programs, flags) = attached_to(path, *hook)?;
            if let Some(id) = programs.first()
                && flags & BPF_F_ALLOW_MULTI == 0
            {
                return Ok(Some(format!(
                    "{} at {}",
                    describe_program(*id),
                    path.display()
                )));
            }
        }
    }
    Ok(None)
}

/// Whether the path is on a cgroup2 mount.
fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Ids of the programs at a hook of this cgroup itself, and the flags of their attachment.
fn attached_to(cgroup: &Path, hook: bpf_attach_type) -> Result<(Vec<u32>, u32)> {
    let cannot = || format!("cannot list the programs of {}", cgroup.display());
    let directory = File::open(cgroup).with_context(cannot)?;
    query(Target::Cgroup(directory.as_fd()), hook, 0).with_context(cannot)
}

/// The cgroup of a load balancer, and its programs there.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its directory.
    pub cgroup: PathBuf,
    /// Programs with their ids, such as `cil_sock4_conne (id 7)`.
    pub programs: Vec<String>,
}

/// The outermost cgroup, from this one up, to which other projects attached programs at these
/// hooks. Any such program may replace the destination of a call.
pub fn find_load_balancer(
    cgroup: &Path,
    hooks: &[bpf_attach_type],
    pins: &Pins,
) -> Result<Option<Found>> {
    let mut found = None;
    for path in cgroup.ancestors().take_while(|path| is_cgroup2(path)) {
        let mut programs = Vec::new();
        for hook in hooks {
            programs.extend(foreign_at(path, *hook, pins)?.into_values());
        }
        if !programs.is_empty() {
            found = Some(Found {
                cgroup: path.to_owned(),
                programs,
            });
        }
    }
    Ok(found)
}

/// The programs of other projects that are attached to this cgroup itself, by their ids.
pub fn foreign_at(
    cgroup: &Path,
    hook: bpf_attach_type,
    pins: &Pins,
) -> Result<BTreeMap<u32, String>> {
    let (ids, _) = attached_to(cgroup, hook)?;
    let mut programs = BTreeMap::new();
    for id in ids {
        if let Some(name) = foreign(id, pins) {
            programs.insert(id, name);
        }
    }
    Ok(programs)
}

/// The program of another project with this id; none for one of ours, and for one that has gone.
/// Without `CAP_SYS_ADMIN` ours are known by their pins.
pub fn foreign(id: u32, pins: &Pins) -> Option<String> {
    let is_ours = match program_name(id) {
        Ok(name) => name.starts_with(OWN),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            pinned_programs(pins).is_ok_and(|ours| ours.contains(&id))
        }
        Err(_) => return None,
    };
    (!is_ours).then(|| describe_program(id))
}

/// Whether, of the programs that run, `before` is in front of all foreign ones and `after` behind
/// them. None: not expected here. A hook without foreign programs is in order.
pub fn surrounds(
    running: &[u32],
    before: Option<u32>,
    after: Option<u32>,
    is_foreign: impl Fn(&u32) -> bool,
) -> bool {
    let Some(first) = running.iter().position(&is_foreign) else {
        return true;
    };
    let last = running.iter().rposition(&is_foreign).unwrap_or(first);
    before.is_none_or(|id| running[..first].contains(&id))
        && after.is_none_or(|id| running[last + 1..].contains(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_must_run_before_the_first_and_after_the_last_foreign_program() {
        let table: [(&[u32], bool); 7] = [
            (&[1, 7, 2], true),
            (&[5, 1, 7, 8, 2, 6], true),
            (&[7, 1, 2], false),
            (&[1, 2, 7], false),
            (&[1, 7, 2, 8], false),
            (&[1, 7], false),
            (&[1, 2], true),
        ];
        for (running, expected) in table {
            let found = surrounds(running, Some(1), Some(2), |id| *id >= 7);
            assert_eq!(found, expected, "{running:?}");
        }
        assert!(surrounds(&[7, 2], None, Some(2), |id| *id >= 7));
        assert!(surrounds(&[1, 7], Some(1), None, |id| *id >= 7));
    }

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

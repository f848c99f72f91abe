//! The cgroups whose processes' sockets are followed.
//!
//! By default these are the children of the root, not the root, since other projects use the root. Cilium 1.18.6 to
//! 1.19 without socket load balancing detaches every program from the root and fails at a link (cilium/cilium #43877),
//! and Cilium up to 1.13 attaches there without flags, which the kernel refuses beside a link (`EPERM`). A program at a
//! child runs for all processes below it, before programs of the root.

use super::{bpf, programs};
use anyhow::{Context as _, Result, bail};
use aya_obj::generated::{BPF_F_ALLOW_MULTI, bpf_attach_type};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Which cgroups are hooked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// This directory of a cgroup2 mount: its processes and those below it.
    Only(PathBuf),
    /// Each child of this directory, new ones included; the directory's own processes are left out.
    ChildrenOf(PathBuf),
}

/// A path stands for this one directory.
impl<P: AsRef<Path> + ?Sized> From<&P> for Scope {
    fn from(path: &P) -> Self {
        Self::Only(path.as_ref().to_owned())
    }
}

impl Scope {
    /// The directory that the operator named, or the root of the mount.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Only(path) | Self::ChildrenOf(path) => path,
        }
    }

    /// The cgroups that are there now: paths by cgroup id, which is the inode number of the directory. The kernel gives
    /// no id twice.
    ///
    /// Errors: the directory cannot be read, or is on no cgroup2 mount.
    pub fn cgroups(&self) -> Result<BTreeMap<u64, PathBuf>> {
        let path = self.path();
        let metadata = fs::metadata(path)
            .with_context(|| format!("cannot open the cgroup2 directory {}", path.display()))?;
        if !is_cgroup2(path) {
            bail!(
                "{} is on no cgroup2 mount: pass a directory of one",
                path.display()
            );
        }
        if let Self::Only(path) = self {
            return Ok([(metadata.ino(), path.clone())].into());
        }
        let mut cgroups = BTreeMap::new();
        let cannot = || format!("cannot list the cgroups in {}", path.display());
        for entry in fs::read_dir(path).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                cgroups.insert(entry.ino(), entry.path());
            }
        }
        Ok(cgroups)
    }

    /// Describes a program that another project attached above these cgroups without `BPF_F_ALLOW_MULTI`.
    ///
    /// The kernel does not run such a program in a cgroup that has programs of its own (`compute_effective_progs` in
    /// kernel/bpf/cgroup.c), so beside it there must be none of ours.
    pub fn exclusive_program_above(&self, hooks: &[bpf_attach_type]) -> Result<Option<String>> {
        let itself = usize::from(matches!(self, Self::Only(_)));
        let above = self.path().ancestors().skip(itself);
        for path in above.take_while(|path| is_cgroup2(path)) {
            let cannot = || format!("cannot list the programs of {}", path.display());
            let directory = File::open(path).with_context(cannot)?;
            for hook in hooks {
                let (programs, flags) =
                    bpf::cgroup_programs(directory.as_fd(), *hook).with_context(cannot)?;
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
}

/// Adds to `found` those of `wanted` that are below this cgroup. A cgroup that cannot be read adds none.
pub fn find_below(cgroup: &Path, wanted: &BTreeSet<u64>, found: &mut BTreeSet<u64>) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if found.len() < wanted.len() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(wanted.get(&entry.ino()));
            find_below(&entry.path(), wanted, found);
        }
    }
}

/// Whether the cgroup has processes, in it or below it. True if that cannot be read.
pub fn is_populated(cgroup: &Path) -> bool {
    let events = fs::read_to_string(cgroup.join("cgroup.events"));
    !events.is_ok_and(|events| events.lines().any(|line| line == "populated 0"))
}

/// Whether the path is on a cgroup2 mount.
pub fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

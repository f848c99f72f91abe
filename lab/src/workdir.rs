//! A run's own directory with its own bpffs, so that runs never meet. It is in memory, as `/run` of
//! a node is: an agent whose log waits for a disk stops, and its lease ends.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::files;

/// The directory of a run. Dropping it removes it, and with its bpffs every map and program that
/// only it holds.
#[derive(Debug)]
pub struct Workdir {
    /// For files and sockets.
    pub path: PathBuf,
    keep: bool,
}

impl Workdir {
    /// Makes `/run/epguard-lab/<pid>-<serial>` with a bpffs on `bpf`; removes those of processes
    /// that no longer run. Needs root.
    pub fn new() -> Result<Self> {
        let parent = Path::new("/run/epguard-lab");
        for left in files::leftovers(parent, "") {
            remove(&left);
        }
        let path = parent.join(files::own_name(""));
        let made = Self { path, keep: false };
        let bpf = made.pins();
        for (kind, path) in [("tmpfs", &made.path), ("bpf", &bpf)] {
            fs::create_dir_all(path)
                .with_context(|| format!("cannot make {} (root is needed)", path.display()))?;
            mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>).with_context(
                || format!("cannot mount {kind} on {} (root is needed)", path.display()),
            )?;
        }
        Ok(made)
    }

    /// Keeps the directory on drop, for inspection.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// The bpffs.
    pub fn pins(&self) -> PathBuf {
        self.path.join("bpf")
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if !self.keep {
            remove(&self.path);
        }
    }
}

fn remove(path: &Path) {
    let _ = umount2(&path.join("bpf"), MntFlags::MNT_DETACH);
    let _ = umount2(path, MntFlags::MNT_DETACH);
    let _ = fs::remove_dir_all(path);
}

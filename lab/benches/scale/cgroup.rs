//! A memory cgroup of the agent's own. It counts the agent's maps, too.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of cgroup v1, then v2: the directory that cgroups are made in, the file of the current octets, and that of the most.
const VERSIONS: [[&str; 3]; 2] = [
    ["/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.max_usage_in_bytes"],
    ["/sys/fs/cgroup", "memory.current", "memory.peak"],
];

pub(crate) struct Cgroup {
    path: PathBuf,
    now: &'static str,
    most: &'static str,
}

impl Cgroup {
    /// None where the kernel has no memory controller for it.
    pub(crate) fn new() -> Option<Self> {
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        VERSIONS.into_iter().find_map(|[parent, now, most]| {
            let path = Path::new(parent).join(format!("epguard-scale-{}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let made = Self { path, now, most };
            made.read(now).map(|_| made)
        })
    }

    /// Has the command's process start in it.
    pub(crate) fn hold(&self, command: &mut Command) {
        let processes = File::options().write(true).open(self.path.join("cgroup.procs")).unwrap();
        // SAFETY: the closure makes the system call write alone, on an open file; it allocates nothing.
        unsafe {
            command.pre_exec(move || io::Write::write_all(&mut &processes, b"0"));
        }
    }

    /// Octets now.
    pub(crate) fn now(&self) -> Option<f64> {
        self.read(self.now)
    }

    /// The most octets so far.
    pub(crate) fn most(&self) -> Option<f64> {
        self.read(self.most)
    }

    fn read(&self, file: &str) -> Option<f64> {
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

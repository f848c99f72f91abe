//! A cgroup of the v1 hierarchy `net_cls`, beside cgroup v2, as on nodes of the hybrid layout.
//!
//! Both hierarchies keep a value in each socket. Before Linux 5.15 that was one field: the socket of a process in such a cgroup
//! lost its cgroup of v2, and with it the programs there.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::files;

const PREFIX: &str = "epguard-";
/// Covered in the mount namespace that the mount is made in, and in no other.
const AT: &str = "/run";

/// A cgroup with a class of its own. Removed on drop; the kernel may keep the hierarchy, empty and mounted nowhere.
#[derive(Debug)]
pub struct NetCls {
    /// The root of the hierarchy. The mount stays while the file is open.
    hierarchy: File,
    name: String,
}

impl NetCls {
    /// Makes it; removes those of lab processes that no longer run. Other processes see no mount. Needs root.
    pub fn new() -> Result<Self> {
        let hierarchy = thread::scope(|scope| {
            let inside = scope.spawn(mounted);
            inside.join().map_err(|_| anyhow!("the thread that mounts it panicked"))?
        });
        let made = Self {
            hierarchy: hierarchy.context("cannot mount the hierarchy net_cls")?,
            name: files::own_name(PREFIX),
        };
        for left in files::leftovers(&made.root(), PREFIX) {
            let _ = fs::remove_dir(left);
        }
        let path = made.path();
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        fs::write(path.join("net_cls.classid"), "0x10001").context("cannot set the class")?;
        Ok(made)
    }

    /// Its directory, for this process.
    pub fn path(&self) -> PathBuf {
        self.root().join(&self.name)
    }

    fn root(&self) -> PathBuf {
        let descriptor = self.hierarchy.as_raw_fd();
        format!("/proc/{}/fd/{descriptor}", std::process::id()).into()
    }
}

impl Drop for NetCls {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.path());
    }
}

/// Its root, mounted in a mount namespace that ends with the thread.
fn mounted() -> Result<File> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("net_cls"), AT, Some("cgroup"), MsFlags::empty(), Some("net_cls"))?;
    Ok(File::open(AT)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[ignore = "needs root: mounts a cgroup hierarchy"]
    fn a_process_is_in_a_cgroup_of_both_hierarchies_and_no_mount_is_left() {
        let net_cls = NetCls::new().unwrap();
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(net_cls.path().join("cgroup.procs"), process.id().to_string()).unwrap();
        let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", process.id())).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(cgroups.contains(&format!(":net_cls:/{}\n", net_cls.name)), "{cgroups}");
        assert!(cgroups.contains("0::/"), "{cgroups}");
        assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains("net_cls"));
        let path = net_cls.path();
        drop(net_cls);
        assert!(!path.exists());
    }
}

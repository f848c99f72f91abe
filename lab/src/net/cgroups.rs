//! Cgroups for sockets alone.
//!
//! The kernel hooks a socket by the cgroup of the process that made it (`cgroup_sk_alloc`), and all
//! hosts of the lab are threads of one process. So a short-lived process makes a socket in a
//! cgroup, and this one takes a copy. Programs at such a root meet these sockets, and no process of
//! this machine.
//!
//! A cgroup of the v1 hierarchy `net_cls` stands beside, as on nodes of the hybrid layout. Both
//! hierarchies keep a value in each socket. Before Linux 5.15 that was one field: the socket of a
//! process in such a cgroup lost its cgroup of v2, and with it the programs there.

use nix::libc;
use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{io, thread};

use anyhow::{Context, Result, anyhow};
use epguard::kernel::datapath::find_cgroup2;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, Socket, Type};

use crate::files;

const SOCKETS: &str = "epguard-sockets-";

/// A cgroup below the cgroup2 mount's root, which stands for the root of a node. Removed with its
/// children on drop.
#[derive(Debug)]
pub struct SocketRoot {
    /// Its directory.
    pub path: PathBuf,
}

impl SocketRoot {
    /// Makes it without children; removes those of lab processes that no longer run. Needs root.
    pub fn new() -> Result<Self> {
        let mount = find_cgroup2(None).context("no cgroup2 is mounted")?;
        for left in files::leftovers(&mount, SOCKETS) {
            remove(&left);
        }
        let path = mount.join(files::own_name(SOCKETS));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Makes a cgroup in it, such as `kubepods.slice`; returns its directory.
    pub fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// Removes a cgroup in it. Its open sockets stay in what is left of it.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::remove_dir(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

impl Drop for SocketRoot {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Makes a socket in a cgroup of each hierarchy, and in the network namespace of the calling
/// thread.
pub fn socket_in(cgroups: &[PathBuf], domain: Domain, kind: Type) -> io::Result<Socket> {
    let processes: Vec<File> = cgroups
        .iter()
        .map(|cgroup: &PathBuf| {
            File::options()
                .write(true)
                .open(cgroup.join("cgroup.procs"))
        })
        .collect::<Result<_, _>>()?;
    let mut maker = Command::new("sleep");
    maker.arg("60").stdout(Stdio::null());
    // SAFETY: the closure makes system calls only, all of them async-signal-safe, and allocates
    // nothing.
    unsafe {
        maker.pre_exec(move || {
            for processes in &processes {
                check(libc::write(processes.as_raw_fd(), c"0".as_ptr().cast(), 1) as _)?;
            }
            let made = libc::socket(domain.into(), i32::from(kind) | libc::SOCK_CLOEXEC, 0);
            check(made.into())?;
            check(libc::dup2(made, libc::STDIN_FILENO).into()).map(drop)
        });
    }
    // Once the program runs, the socket is its standard input.
    let mut maker = maker.spawn()?;
    let made = descriptor_of(maker.id(), libc::STDIN_FILENO);
    maker.kill()?;
    maker.wait()?;
    made.map(Socket::from)
}

/// A copy of another process's descriptor: `pidfd_getfd`, Linux 5.6.
fn descriptor_of(process: u32, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let process = check(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: the descriptor is new: nothing else knows it.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    // SAFETY: the call takes no pointers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    // SAFETY: the descriptor is new: nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(check(copy)?) })
}

/// The result of a system call, which may be a descriptor.
fn check(result: libc::c_long) -> io::Result<RawFd> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        RawFd::try_from(result).map_err(io::Error::other)
    }
}

/// Removes a cgroup and those in it, as far as they hold no process.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}

const NET_CLS: &str = "epguard-";
/// Covered in the mount namespace that the mount is made in, and in no other.
const AT: &str = "/run";

/// A cgroup with a class of its own. Removed on drop; the kernel may keep the hierarchy, empty and
/// mounted nowhere.
#[derive(Debug)]
pub struct NetCls {
    /// The root of the hierarchy. The mount stays while the file is open.
    hierarchy: File,
    name: String,
}

impl NetCls {
    /// Makes it; removes those of lab processes that no longer run. Other processes see no mount.
    /// Needs root.
    pub fn new() -> Result<Self> {
        let hierarchy = thread::scope(|scope| {
            let inside = scope.spawn(mounted);
            inside
                .join()
                .map_err(|_| anyhow!("the thread that mounts it panicked"))?
        });
        let made = Self {
            hierarchy: hierarchy.context("cannot mount the hierarchy net_cls")?,
            name: files::own_name(NET_CLS),
        };
        for left in files::leftovers(&made.root(), NET_CLS) {
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
    mount(
        Some("net_cls"),
        AT,
        Some("cgroup"),
        MsFlags::empty(),
        Some("net_cls"),
    )?;
    Ok(File::open(AT)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[ignore = "needs root: makes a cgroup"]
    fn a_socket_is_made_in_a_cgroup_by_a_process_that_has_ended() {
        let root = SocketRoot::new().unwrap();
        let cgroup = root.make("system.slice").unwrap();
        let socket = socket_in(std::slice::from_ref(&cgroup), Domain::IPV6, Type::DGRAM).unwrap();
        assert_eq!(socket.r#type().unwrap(), Type::DGRAM);
        assert_eq!(socket.domain().unwrap(), Domain::IPV6);
        assert_eq!(fs::read_to_string(cgroup.join("cgroup.procs")).unwrap(), "");
        let path = root.path.clone();
        drop((socket, root));
        assert!(!path.exists());
    }

    #[test]
    #[ignore = "needs root: mounts a cgroup hierarchy"]
    fn a_process_is_in_a_cgroup_of_both_hierarchies_and_no_mount_is_left() {
        let net_cls = NetCls::new().unwrap();
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(
            net_cls.path().join("cgroup.procs"),
            process.id().to_string(),
        )
        .unwrap();
        let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", process.id())).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(
            cgroups.contains(&format!(":net_cls:/{}\n", net_cls.name)),
            "{cgroups}"
        );
        assert!(cgroups.contains("0::/"), "{cgroups}");
        assert!(
            !fs::read_to_string("/proc/self/mountinfo")
                .unwrap()
                .contains("net_cls")
        );
        let path = net_cls.path();
        drop(net_cls);
        assert!(!path.exists());
    }
}

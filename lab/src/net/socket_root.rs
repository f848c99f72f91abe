//! A root of cgroups for sockets alone.
//!
//! The kernel hooks a socket by the cgroup of the process that made it (`cgroup_sk_alloc`), and all hosts of the lab are
//! threads of one process. So a process that ends at once makes a socket in a cgroup and hands it over. Programs at such a
//! root meet these sockets, and no process of this machine.

use std::fs::{self, File};
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use epguard::kernel::datapath::find_cgroup2;
use socket2::{Domain, Socket, Type};

use crate::files;

const PREFIX: &str = "epguard-sockets-";

/// A cgroup below the cgroup2 mount's root, which stands for the root of a node. Removed with its children on drop.
#[derive(Debug)]
pub struct SocketRoot {
    path: PathBuf,
}

impl SocketRoot {
    /// Makes it without children; removes those of lab processes that no longer run. Needs root.
    pub fn new() -> Result<Self> {
        let mount = find_cgroup2(None).context("no cgroup2 is mounted")?;
        for left in files::leftovers(&mount, PREFIX) {
            remove(&left);
        }
        let path = mount.join(files::own_name(PREFIX));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
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

/// Makes a socket in a cgroup of each hierarchy, and in the network namespace of the calling thread.
pub fn socket_in(cgroups: &[PathBuf], domain: Domain, kind: Type) -> io::Result<Socket> {
    let open = |cgroup: &PathBuf| File::options().write(true).open(cgroup.join("cgroup.procs"));
    let processes: Vec<File> = cgroups.iter().map(open).collect::<Result<_, _>>()?;
    let (ours, theirs) = UnixStream::pair()?;
    let mut maker = Command::new("true");
    maker.stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: the closure makes system calls only, all of them async-signal-safe, and allocates nothing.
    unsafe {
        maker.pre_exec(move || {
            for processes in &processes {
                check(libc::write(processes.as_raw_fd(), c"0".as_ptr().cast(), 1))?;
            }
            let made = libc::socket(domain.into(), i32::from(kind) | libc::SOCK_CLOEXEC, 0);
            check(made as isize)?;
            hand_over(theirs.as_raw_fd(), made)
        });
    }
    let status = maker.status();
    // The closure holds the other end: without it nothing is waited for.
    drop(maker);
    status?;
    receive(ours.as_raw_fd())
}

fn check(result: isize) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a descriptor in a message of one octet.
fn hand_over(channel: RawFd, socket: RawFd) -> io::Result<()> {
    with_message(|message| {
        // SAFETY: `with_message` has made room for the message of one descriptor, in which header and data lie; the kernel
        // reads what the header points to.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(socket);
            check(libc::sendmsg(channel, message, 0))
        }
    })
}

/// The descriptor that [`hand_over`] sends.
fn receive(channel: RawFd) -> io::Result<Socket> {
    with_message(|message| {
        // SAFETY: the kernel writes into the octet and the control buffer only; a header that it has written lies in the
        // latter, with its data. The descriptor is new, and nothing else knows it.
        unsafe {
            check(libc::recvmsg(channel, message, libc::MSG_CMSG_CLOEXEC))?;
            let header = libc::CMSG_FIRSTHDR(message);
            if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                return Err(io::Error::other("no socket was made in the cgroup"));
            }
            let socket = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            Ok(Socket::from_raw_fd(socket))
        }
    })
}

/// A message of one octet with room for one descriptor. Allocates nothing.
fn with_message<T>(work: impl FnOnce(&mut libc::msghdr) -> io::Result<T>) -> io::Result<T> {
    let mut octet = [0u8];
    let mut part = libc::iovec { iov_base: octet.as_mut_ptr().cast(), iov_len: octet.len() };
    // Aligned as a header is; CMSG_SPACE(4) is 24.
    let mut control = [0u64; 3];
    // SAFETY: an all-zero header is a valid one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    work(&mut message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root: makes a cgroup"]
    fn a_socket_is_made_in_a_cgroup_by_a_process_that_has_ended() {
        let root = SocketRoot::new().unwrap();
        let cgroup = root.make("system.slice").unwrap();
        let socket = socket_in(std::slice::from_ref(&cgroup), Domain::IPV6, Type::DGRAM).unwrap();
        assert_eq!(socket.r#type().unwrap(), Type::DGRAM);
        assert_eq!(socket.domain().unwrap(), Domain::IPV6);
        assert_eq!(fs::read_to_string(cgroup.join("cgroup.procs")).unwrap(), "");
        let path = root.path().to_owned();
        drop((socket, root));
        assert!(!path.exists());
    }
}

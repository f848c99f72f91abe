//! A hierarchy of cgroups of a test's own, and the programs on them.

use aya_obj::generated::{bpf_attach_type, bpf_cmd};
use epguard::daemon::args::cgroup2_mount;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// All hooks of ours.
pub const HOOKS: [bpf_attach_type; 5] = [
    bpf_attach_type::BPF_CGROUP_INET_SOCK_CREATE,
    bpf_attach_type::BPF_CGROUP_INET4_CONNECT,
    bpf_attach_type::BPF_CGROUP_INET6_CONNECT,
    bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG,
    bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG,
];

/// A directory that stands for the root of the mount, two levels below it: agents of other tests hook the level between.
pub struct Root {
    pub path: PathBuf,
}

impl Root {
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let above = format!("epguard-life-{}-{serial}", std::process::id());
        let path = cgroup2_mount().unwrap().join(above).join("root");
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn child(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir(&path).unwrap();
        path
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.path).unwrap().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.path);
        let _ = fs::remove_dir(self.path.parent().unwrap());
    }
}

/// A process in a cgroup. Dropping it ends it.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn start(cgroup: &Path) -> Self {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).unwrap();
        Self(child)
    }

    /// As the status names it.
    pub fn name(&self) -> String {
        format!("sleep ({})", self.0.id())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Ids of the programs that were attached to this very cgroup.
pub fn attached(cgroup: &Path, hook: bpf_attach_type) -> Vec<u32> {
    query(cgroup, hook, 0)
}

/// Ids of the programs that run for its processes.
pub fn effective(cgroup: &Path, hook: bpf_attach_type) -> Vec<u32> {
    const QUERY_EFFECTIVE: u32 = 1;
    query(cgroup, hook, QUERY_EFFECTIVE)
}

/// `BPF_PROG_ATTACH` without flags, as Cilium up to 1.13 does it.
pub fn attach(program: BorrowedFd<'_>, cgroup: &Path, hook: bpf_attach_type) -> io::Result<()> {
    attach_or_detach(bpf_cmd::BPF_PROG_ATTACH, program, cgroup, hook)
}

/// `BPF_PROG_DETACH`.
pub fn detach(program: BorrowedFd<'_>, cgroup: &Path, hook: bpf_attach_type) -> io::Result<()> {
    attach_or_detach(bpf_cmd::BPF_PROG_DETACH, program, cgroup, hook)
}

fn attach_or_detach(
    command: bpf_cmd,
    program: BorrowedFd<'_>,
    cgroup: &Path,
    hook: bpf_attach_type,
) -> io::Result<()> {
    let directory = File::open(cgroup)?;
    let mut attr = [0u32; 8];
    attr[0] = directory.as_raw_fd().cast_unsigned();
    attr[1] = program.as_raw_fd().cast_unsigned();
    attr[2] = hook as u32;
    bpf(command, &mut attr)
}

fn query(cgroup: &Path, hook: bpf_attach_type, flags: u32) -> Vec<u32> {
    #[repr(C)]
    struct Attr {
        target: u32,
        hook: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        rest: [u32; 9],
    }
    let directory = File::open(cgroup).unwrap();
    let mut ids = vec![0u32; 64];
    let mut attr = Attr {
        target: directory.as_raw_fd().cast_unsigned(),
        hook: hook as u32,
        query_flags: flags,
        attach_flags: 0,
        ids: ids.as_mut_ptr().addr() as u64,
        count: 64,
        rest: [0; 9],
    };
    bpf(bpf_cmd::BPF_PROG_QUERY, &mut attr).unwrap();
    ids.truncate(attr.count as usize);
    ids
}

fn bpf<T>(command: bpf_cmd, attr: &mut T) -> io::Result<()> {
    // SAFETY: a struct of integers laid out as the kernel's, with its size; the pointer in it is to `ids`, which lives.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(attr),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

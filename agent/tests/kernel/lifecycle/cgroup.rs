//! A hierarchy of cgroups of a test's own, and the programs on them.

use aya_obj::generated::{bpf_attach_type, bpf_cmd};
use epguard::kernel::datapath::find_cgroup2;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that stands for the root of the mount, two levels below it: agents of other tests hook the level between.
pub struct Root {
    pub path: PathBuf,
}

impl Root {
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let above = format!("epguard-life-{}-{serial}", std::process::id());
        let path = find_cgroup2(None).unwrap().join(above).join("root");
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

/// Ids of the programs that run for its processes.
pub fn effective(cgroup: &Path, hook: bpf_attach_type) -> Vec<u32> {
    const QUERY_EFFECTIVE: u32 = 1;
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
        query_flags: QUERY_EFFECTIVE,
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
        libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_mut(attr), size_of::<T>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

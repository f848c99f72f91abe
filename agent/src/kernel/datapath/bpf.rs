//! The commands of bpf(2) that aya has no function for: links by interface number, and operations on pinned links.

use aya_obj::generated::{BPF_F_BEFORE, BPF_F_QUERY_EFFECTIVE, bpf_attach_type, bpf_cmd, bpf_link_info};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

/// The target of a link.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An interface of this network namespace, before all its other programs.
    Interface(u32),
    /// The XDP hook of an interface of this network namespace, which takes one program.
    Xdp {
        /// Its number.
        ifindex: u32,
        /// One of `XDP_FLAGS_*_MODE`, `linux/if_link.h`.
        mode: u32,
    },
    /// A cgroup2 directory, after its other programs.
    Cgroup(BorrowedFd<'a>),
    /// A cgroup2 directory, before its other programs. Linux 6.17; `EINVAL` before.
    CgroupFirst(BorrowedFd<'a>),
}

/// The most programs of one hook that one query returns. The kernel allows 64 on a TCX hook, and on a hook of a cgroup.
const PROGRAMS: usize = 64;

/// Attaches a program; the link holds it until its last descriptor and pin are gone.
pub fn link_create(
    program: BorrowedFd<'_>,
    target: Target<'_>,
    attach_type: bpf_attach_type,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        program: RawFd,
        target: u32,
        attach_type: u32,
        flags: u32,
        relative: u64,
        revision: u64,
    }
    // Without a reference program, `BPF_F_BEFORE` means before all others.
    let (target, flags) = match target {
        Target::Interface(ifindex) => (ifindex, BPF_F_BEFORE),
        Target::Xdp { ifindex, mode } => (ifindex, mode),
        Target::Cgroup(directory) => (directory.as_raw_fd().cast_unsigned(), 0),
        Target::CgroupFirst(directory) => (directory.as_raw_fd().cast_unsigned(), BPF_F_BEFORE),
    };
    let mut attr = Attr {
        program: program.as_raw_fd(),
        target,
        attach_type: attach_type as u32,
        flags,
        relative: 0,
        revision: 0,
    };
    // SAFETY: `attr` has no pointers; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)?) }
}

/// Replaces the program of a link: at no moment is there none, or two. `ENOLINK` if the link is severed.
pub fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = [link.as_raw_fd(), program.as_raw_fd(), 0, 0];
    // SAFETY: `attr` has no pointers.
    unsafe { bpf(bpf_cmd::BPF_LINK_UPDATE, &mut attr) }.map(drop)
}

/// Severs a link, even if other processes hold it.
pub fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the command takes no pointers.
    unsafe { bpf(bpf_cmd::BPF_LINK_DETACH, &mut [link.as_raw_fd()]) }.map(drop)
}

/// Pins a link (or a map, or a program) on a bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path ends with 0, and lives until the call returns.
    unsafe { bpf(bpf_cmd::BPF_OBJ_PIN, &mut at(&path, object.as_raw_fd())) }.map(drop)
}

/// Opens a pinned object; none if nothing is pinned there.
pub fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    let path = c_path(path)?;
    // SAFETY: the path ends with 0, and lives until the call returns.
    match unsafe { bpf(bpf_cmd::BPF_OBJ_GET, &mut at(&path, 0)) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // SAFETY: the command returns a new descriptor.
        opened => unsafe { descriptor(opened?) }.map(Some),
    }
}

/// Id of the program in a link.
pub fn link_program(link: &OwnedFd) -> io::Result<u32> {
    Ok(link_info(link)?.prog_id)
}

/// The cgroup that a cgroup link is attached to, by the inode number of its directory; 0 if it is severed.
pub fn link_cgroup(link: &OwnedFd) -> io::Result<u64> {
    let info = link_info(link)?;
    // SAFETY: every bit pattern is an integer; the kernel has filled in the variant of cgroup links.
    Ok(unsafe { info.__bindgen_anon_1.cgroup.cgroup_id })
}

fn link_info(link: &OwnedFd) -> io::Result<bpf_link_info> {
    // SAFETY: all-zero is a valid value of this struct of integers and of a union of such.
    let mut info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` has no pointers that are not 0.
    unsafe { object_info(link.as_fd(), &mut info) }?;
    Ok(info)
}

/// Ids of the TCX or netkit programs at an interface's hook, in the order in which they run. `EINVAL` before Linux 6.6 or
/// 6.7, `ENXIO` or `EACCES` where there is no such hook.
pub fn tcx_programs(ifindex: u32, attach_type: bpf_attach_type) -> io::Result<Vec<u32>> {
    query(ifindex, attach_type, 0).map(|(programs, _)| programs)
}

/// Ids of the programs that are attached to this cgroup itself, and the flags of their attachment. With
/// `BPF_F_ALLOW_MULTI` they run beside others, and beside those of cgroups above it; links always do.
pub fn cgroup_programs(
    directory: BorrowedFd<'_>,
    attach_type: bpf_attach_type,
) -> io::Result<(Vec<u32>, u32)> {
    query(directory.as_raw_fd().cast_unsigned(), attach_type, 0)
}

/// Ids of the programs that run for the processes of this cgroup, also from cgroups above it, in the order in which they run.
pub fn effective_cgroup_programs(cgroup: &Path, attach_type: bpf_attach_type) -> io::Result<Vec<u32>> {
    let directory = File::open(cgroup)?;
    let target = directory.as_raw_fd().cast_unsigned();
    query(target, attach_type, BPF_F_QUERY_EFFECTIVE).map(|(programs, _)| programs)
}

fn query(target: u32, attach_type: bpf_attach_type, query_flags: u32) -> io::Result<(Vec<u32>, u32)> {
    #[repr(C)]
    struct Attr {
        target: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        reserved: u32,
        unasked: [u64; 4],
    }
    let mut ids = vec![0u32; PROGRAMS];
    let mut attr = Attr {
        target,
        attach_type: attach_type as u32,
        query_flags,
        attach_flags: 0,
        ids: ids.as_mut_ptr().addr() as u64,
        count: u32::try_from(ids.len()).unwrap_or(u32::MAX),
        reserved: 0,
        unasked: [0; 4],
    };
    // SAFETY: `ids` has room for `count` numbers.
    unsafe { bpf(bpf_cmd::BPF_PROG_QUERY, &mut attr) }?;
    ids.truncate(attr.count as usize);
    Ok((ids, attr.attach_flags))
}

/// Fills `info`, a struct as `BPF_OBJ_GET_INFO_BY_FD` writes it for this kind of object. The kernel refuses padding that is
/// not zero: begin with `std::mem::zeroed`, since a struct literal may have any padding.
///
/// # Safety
///
/// Each pointer in `info` is 0, or leads to a live buffer with room for as much as the length beside it.
pub(super) unsafe fn object_info<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        object: RawFd,
        length: u32,
        info: u64,
    }
    let mut attr = Attr {
        object: object.as_raw_fd(),
        length: u32::try_from(size_of::<T>()).unwrap_or_default(),
        info: std::ptr::from_mut(info).addr() as u64,
    };
    // SAFETY: the kernel writes at most `length` octets of `info`; the caller guarantees the pointers in it.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }.map(drop)
}

#[repr(C)]
struct At {
    path: u64,
    object: RawFd,
    flags: u32,
}

fn at(path: &CString, object: RawFd) -> At {
    At { path: path.as_ptr().addr() as u64, object, flags: 0 }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}

/// The descriptor that a command returned.
///
/// # Safety
///
/// The command made the descriptor for the caller, and nothing else owns it.
pub unsafe fn descriptor(raw: libc::c_long) -> io::Result<OwnedFd> {
    let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
    // SAFETY: the caller owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Carries out a command. `attr` is the part of the kernel's union that the command reads.
///
/// # Safety
///
/// `attr` is laid out as the kernel's, without padding. Each pointer in it leads to a buffer that is as large as the
/// command assumes, and that lives, and may be written to where the command writes, until the call returns.
pub unsafe fn bpf<T>(command: bpf_cmd, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` octets of `attr`; the caller guarantees the rest.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_mut(attr), size_of::<T>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

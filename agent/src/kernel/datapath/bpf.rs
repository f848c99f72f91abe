//! The commands of bpf(2) that aya has no function for: links by interface number and order,
//! queries by ids alone, operations on pinned links, and maps of maps.

use anyhow::{Context as _, Result};
use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_cmd, bpf_link_info, bpf_map_type, bpf_prog_info,
};
use nix::libc;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

/// Where programs attach.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// An interface of this network namespace.
    Interface(u32),
    /// A cgroup2 directory.
    Cgroup(BorrowedFd<'a>),
}

impl Target<'_> {
    fn number(self) -> u32 {
        match self {
            Self::Interface(ifindex) => ifindex,
            Self::Cgroup(directory) => number(&directory),
        }
    }
}

/// The most programs of one hook that one query returns. The kernel allows 64 on a TCX hook, and on
/// a hook of a cgroup.
const PROGRAMS: usize = 64;

/// Attaches a program; the link holds it until its last descriptor and pin are gone. `flags`: for
/// XDP the mode, one of `XDP_FLAGS_*_MODE` in `linux/if_link.h`; else 0 for after all other
/// programs, or `BPF_F_BEFORE` for before them: without a reference program it means that, at an
/// interface on Linux 6.6, in a cgroup on 6.17 (`EINVAL` before).
pub fn link_create(
    program: BorrowedFd<'_>,
    target: Target<'_>,
    attach_type: bpf_attach_type,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attr = empty();
    attr.link_create.__bindgen_anon_1.prog_fd = number(&program);
    attr.link_create.__bindgen_anon_2.target_fd = target.number();
    attr.link_create.attach_type = attach_type as u32;
    attr.link_create.flags = flags;
    // SAFETY: `attr` has no pointers; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)?) }
}

/// Replaces the program of a link: at no moment is there none, or two. `ENOLINK` if the link is
/// severed.
pub fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = empty();
    attr.link_update.link_fd = number(&link);
    attr.link_update.__bindgen_anon_1.new_prog_fd = number(&program);
    // SAFETY: `attr` has no pointers.
    unsafe { bpf(bpf_cmd::BPF_LINK_UPDATE, &mut attr) }.map(drop)
}

/// Severs a link, even if other processes hold it.
pub fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the command takes no pointers.
    unsafe { bpf(bpf_cmd::BPF_LINK_DETACH, &mut [link.as_raw_fd()]) }.map(drop)
}

/// Pins a link (or a map, or a program) on a bpffs.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let c_path = c_path(path)?;
    let mut attr = empty();
    attr.__bindgen_anon_4.pathname = c_path.as_ptr().expose_provenance() as u64;
    attr.__bindgen_anon_4.bpf_fd = number(&object);
    // SAFETY: the path ends with 0, and lives until the call returns.
    let pinned = unsafe { bpf(bpf_cmd::BPF_OBJ_PIN, &mut attr) };
    pinned
        .map(drop)
        .with_context(|| format!("cannot pin {}", path.display()))
}

/// Opens a pinned object; none if nothing is pinned there.
pub fn open(path: &Path) -> Result<Option<OwnedFd>> {
    let c_path = c_path(path)?;
    let mut attr = empty();
    attr.__bindgen_anon_4.pathname = c_path.as_ptr().expose_provenance() as u64;
    // SAFETY: the path ends with 0, and lives until the call returns.
    let opened = match unsafe { bpf(bpf_cmd::BPF_OBJ_GET, &mut attr) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // SAFETY: the command returns a new descriptor.
        opened => opened.and_then(|raw| unsafe { descriptor(raw) }),
    };
    opened
        .map(Some)
        .with_context(|| format!("cannot open the pin {}", path.display()))
}

/// Id of the program in a link.
pub fn link_program(link: &OwnedFd) -> io::Result<u32> {
    // SAFETY: all-zero is a value of the struct, without pointers.
    Ok(unsafe { object_info::<bpf_link_info>(link) }?.prog_id)
}

/// The cgroup that a cgroup link is attached to, by the inode number of its directory; 0 if it is
/// severed.
pub fn link_cgroup(link: &OwnedFd) -> io::Result<u64> {
    // SAFETY: as above; every bit pattern is an integer, and the kernel has filled in the variant
    // of cgroup links.
    unsafe {
        Ok(object_info::<bpf_link_info>(link)?
            .__bindgen_anon_1
            .cgroup
            .cgroup_id)
    }
}

/// Name of the program with this id: `ENOENT` if it is gone, `EPERM` without `CAP_SYS_ADMIN`.
pub fn program_name(id: u32) -> io::Result<String> {
    // SAFETY: the command takes no pointers, and returns a new descriptor.
    let program = unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0])?)? };
    // SAFETY: all-zero is a value of the struct, without pointers.
    let octets = unsafe { object_info::<bpf_prog_info>(&program) }?
        .name
        .map(|character| character.to_ne_bytes()[0]);
    let name = CStr::from_bytes_until_nul(&octets).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// A program as texts name it: `name (id 7)`, or `program 7` where the kernel shows no name, as
/// without `CAP_SYS_ADMIN`.
pub fn describe_program(id: u32) -> String {
    match program_name(id) {
        Ok(name) if !name.is_empty() => format!("{name} (id {id})"),
        _ => format!("program {id}"),
    }
}

/// Ids of the TCX or netkit programs at an interface's hook, in the order in which they run.
/// `EINVAL` before Linux 6.6 or 6.7, `ENXIO` or `EACCES` where there is no such hook.
pub fn tcx_programs(ifindex: u32, attach_type: bpf_attach_type) -> io::Result<Vec<u32>> {
    query(Target::Interface(ifindex), attach_type, 0).map(|(programs, _)| programs)
}

/// Ids of the programs that are attached here, in the order in which they run, and the flags of
/// their attachment. In a cgroup, with `BPF_F_ALLOW_MULTI` they run beside others, and beside those
/// of cgroups above it; links always do. With the query flag `BPF_F_QUERY_EFFECTIVE` those that run
/// for its processes, also from cgroups above it.
pub fn query(
    target: Target<'_>,
    attach_type: bpf_attach_type,
    query_flags: u32,
) -> io::Result<(Vec<u32>, u32)> {
    let mut ids = vec![0u32; PROGRAMS];
    let mut attr = empty();
    attr.query.__bindgen_anon_1.target_fd = target.number();
    attr.query.attach_type = attach_type as u32;
    attr.query.query_flags = query_flags;
    attr.query.prog_ids = ids.as_mut_ptr().expose_provenance() as u64;
    attr.query.__bindgen_anon_2.count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    // SAFETY: `ids` has room for `count` numbers.
    unsafe { bpf(bpf_cmd::BPF_PROG_QUERY, &mut attr) }?;
    // SAFETY: a struct of integers, which the kernel has filled in.
    let (count, flags) = unsafe { (attr.query.__bindgen_anon_2.count, attr.query.attach_flags) };
    ids.truncate(count as usize);
    Ok((ids, flags))
}

/// Makes a map with places for other maps of the type, sizes and flags of `inner`.
pub fn make_map_of_maps(name: &str, places: u32, inner: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut attr = empty();
    attr.__bindgen_anon_1.map_type = bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS as u32;
    attr.__bindgen_anon_1.key_size = 4;
    attr.__bindgen_anon_1.value_size = 4;
    attr.__bindgen_anon_1.max_entries = places;
    attr.__bindgen_anon_1.inner_map_fd = number(&inner);
    let mut octets = name.bytes().take(15);
    attr.__bindgen_anon_1.map_name =
        std::array::from_fn(|_| libc::c_char::from_ne_bytes([octets.next().unwrap_or(0)]));
    // SAFETY: `attr` has no pointers; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)?) }
}

/// Puts a map into a place of a map of maps; none empties it. `EINVAL`: it has another type, size
/// or flags than the first one.
pub fn set_inner_map(
    outer: BorrowedFd<'_>,
    place: u32,
    inner: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let value = inner.map_or(-1, |inner| inner.as_raw_fd());
    let mut attr = empty();
    attr.__bindgen_anon_2.map_fd = number(&outer);
    attr.__bindgen_anon_2.key = (&raw const place).expose_provenance() as u64;
    let command = match inner {
        Some(_) => {
            attr.__bindgen_anon_2.__bindgen_anon_1.value =
                (&raw const value).expose_provenance() as u64;
            bpf_cmd::BPF_MAP_UPDATE_ELEM
        }
        None => bpf_cmd::BPF_MAP_DELETE_ELEM,
    };
    // SAFETY: keys and values of maps of maps have 4 octets, as `place` and `value` have, which
    // live until the call returns.
    match unsafe { bpf(command, &mut attr) } {
        Err(error) if inner.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written.map(drop),
    }
}

/// What the kernel reports of an object.
///
/// # Safety
///
/// `T` is the struct that `BPF_OBJ_GET_INFO_BY_FD` writes for this kind of object; all-zero is a
/// value of it, and each pointer is then 0.
unsafe fn object_info<T>(object: &OwnedFd) -> io::Result<T> {
    // SAFETY: the caller's. The kernel refuses padding that is not zero, as a struct literal may
    // have.
    let mut info: T = unsafe { zeroed() };
    let mut attr = empty();
    attr.info.bpf_fd = number(object);
    attr.info.info_len = u32::try_from(size_of::<T>()).unwrap_or_default();
    attr.info.info = (&raw mut info).expose_provenance() as u64;
    // SAFETY: the kernel writes at most `info_len` octets of `info`.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(info)
}

fn empty() -> bpf_attr {
    // SAFETY: all-zero is a valid value of this union of integers.
    unsafe { zeroed() }
}

fn number(descriptor: &impl AsFd) -> u32 {
    descriptor.as_fd().as_raw_fd().cast_unsigned()
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
/// `attr` is laid out as the kernel's, and all of its octets are set: those that no field covers
/// are 0. Each pointer in it leads to a buffer that is as large as the command assumes, and that
/// lives, and may be written to where the command writes, until the call returns.
pub unsafe fn bpf<T>(command: bpf_cmd, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` octets of `attr`; the caller guarantees
    // the rest.
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
    Ok(result)
}

/// Whether a system call failed with one of these numbers, as a cause of the error.
pub fn failed_with(error: &anyhow::Error, numbers: &[i32]) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.any(|cause| is_one_of(cause, numbers))
}

/// Whether the error has one of these numbers.
pub fn is_one_of(error: &io::Error, numbers: &[i32]) -> bool {
    error
        .raw_os_error()
        .is_some_and(|number| numbers.contains(&number))
}

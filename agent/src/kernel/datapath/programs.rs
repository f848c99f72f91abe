//! Programs of the whole kernel by their ids, with their translated instructions and the programs in their maps.
//!
//! Ids need `CAP_SYS_ADMIN`: without it the kernel returns `EPERM`.

use super::bpf::{bpf, descriptor, object_info};
use aya_obj::generated::{bpf_attach_type, bpf_cmd, bpf_prog_info, bpf_prog_type};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// Octets of a map's keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapSize {
    /// Octets of a key; 0 for queues.
    pub key: u32,
    /// Octets of the value of one element.
    pub value: u32,
}

/// A program, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Information {
    /// One of `bpf_prog_type`.
    pub kind: u32,
    /// Cut to 15 characters by the kernel.
    pub name: String,
    /// The instructions as the kernel runs them, in the host's byte order; none if it withholds them.
    pub instructions: Option<Vec<u8>>,
    /// Ids of the maps that it uses.
    pub maps: Vec<u32>,
}

/// Ids of all programs, ascending.
pub fn ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    loop {
        let mut attr = [ids.last().copied().unwrap_or(0), 0, 0];
        // SAFETY: `attr` has no pointers.
        match unsafe { bpf(bpf_cmd::BPF_PROG_GET_NEXT_ID, &mut attr) } {
            Ok(_) => ids.push(attr[1]),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ids),
            Err(error) => return Err(error),
        }
    }
}

/// Opens a program; `ENOENT` if it is gone.
pub fn open(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the command takes no pointers, and returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0])?) }
}

/// Name of a program; none if it is gone.
pub fn name(id: u32) -> Option<String> {
    read_program_name(id).ok()
}

/// The same, with the error: `ENOENT` if it is gone, `EPERM` without `CAP_SYS_ADMIN`.
pub fn read_program_name(id: u32) -> io::Result<String> {
    Ok(name_in(&program_info(&open(id)?)?))
}

/// The type of a program, one of `bpf_prog_type`; needs fewer steps than all of [`information()`].
pub fn kind(id: u32) -> io::Result<u32> {
    Ok(program_info(&open(id)?)?.type_)
}

/// Reads an open program, as the kernel shows it.
pub fn information(program: &OwnedFd) -> io::Result<Information> {
    let sizes = program_info(program)?;
    let mut instructions = vec![0u8; sizes.xlated_prog_len as usize];
    let mut maps = vec![0u32; sizes.nr_map_ids as usize];
    let mut info = empty_program();
    info.xlated_prog_len = sizes.xlated_prog_len;
    info.xlated_prog_insns = instructions.as_mut_ptr().addr() as u64;
    info.nr_map_ids = sizes.nr_map_ids;
    info.map_ids = maps.as_mut_ptr().addr() as u64;
    // SAFETY: both buffers have room for the lengths beside their addresses.
    unsafe { object_info(program.as_fd(), &mut info) }?;
    maps.truncate(info.nr_map_ids as usize);
    // The kernel clears the address if it hides constants (`bpf_jit_harden`), and the length without privileges.
    let shown = info.xlated_prog_insns != 0 && info.xlated_prog_len > 0;
    Ok(Information {
        kind: info.type_,
        name: name_in(&info),
        instructions: shown.then_some(instructions),
        maps,
    })
}

/// Opens a map; `ENOENT` if it is gone.
pub fn open_map(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the command takes no pointers, and returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_MAP_GET_FD_BY_ID, &mut [id, 0, 0])?) }
}

/// Ids of the programs in a map of programs to tail-call, each once.
pub fn tail_calls(map: &OwnedFd, entries: u32) -> io::Result<Vec<u32>> {
    #[repr(C)]
    struct Attr {
        map: u64,
        key: u64,
        value: u64,
        flags: u64,
    }
    let mut ids = Vec::new();
    for mut key in 0..entries {
        let mut value = 0u32;
        let mut attr = Attr {
            map: u64::from(map.as_raw_fd().cast_unsigned()),
            key: std::ptr::from_mut(&mut key).addr() as u64,
            value: std::ptr::from_mut(&mut value).addr() as u64,
            flags: 0,
        };
        // SAFETY: keys and values of maps of programs have 4 octets, as `key` and `value` have.
        match unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut attr) } {
            Ok(_) => ids.push(value),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Loads a program of this type from instructions in the host's byte order. `hook` is the one that its context depends on,
/// if any. It is attached nowhere.
pub fn load(kind: bpf_prog_type, hook: Option<bpf_attach_type>, instructions: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log: [u64; 2],
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        ifindex: u32,
        attach_type: u32,
    }
    let mut attr = Attr {
        kind: kind as u32,
        count: u32::try_from(instructions.len() / 8).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log: [0; 2],
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
        ifindex: 0,
        attach_type: hook.map_or(0, |hook| hook as u32),
    };
    // SAFETY: `count` is that of the instructions, the license ends with 0; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?) }
}

fn program_info(program: &OwnedFd) -> io::Result<bpf_prog_info> {
    let mut info = empty_program();
    // SAFETY: all pointers in `info` are 0.
    unsafe { object_info(program.as_fd(), &mut info) }?;
    Ok(info)
}

fn empty_program() -> bpf_prog_info {
    // SAFETY: all-zero is a valid value of this struct of integers.
    unsafe { std::mem::zeroed() }
}

fn name_in(info: &bpf_prog_info) -> String {
    let octets = info.name.map(|character| character.to_ne_bytes()[0]);
    let name = CStr::from_bytes_until_nul(&octets).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

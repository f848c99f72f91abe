//! Programs of the whole kernel by their ids, and small programs that try what the kernel permits.
//!
//! Ids need `CAP_SYS_ADMIN`: without it the kernel returns `EPERM`.

use super::bpf::{bpf, descriptor, object_info};
use aya_obj::generated::{bpf_attach_type, bpf_cmd, bpf_prog_info, bpf_prog_type};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Name of a program; none if it is gone.
pub fn name(id: u32) -> Option<String> {
    read_program_name(id).ok()
}

/// The same, with the error: `ENOENT` if it is gone, `EPERM` without `CAP_SYS_ADMIN`.
pub fn read_program_name(id: u32) -> io::Result<String> {
    // SAFETY: the command takes no pointers, and returns a new descriptor.
    let program = unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_GET_FD_BY_ID, &mut [id, 0, 0])?)? };
    // SAFETY: all-zero is a valid value of this struct of integers.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers in `info` are 0.
    unsafe { object_info(program.as_fd(), &mut info) }?;
    let octets = info.name.map(|character| character.to_ne_bytes()[0]);
    let name = CStr::from_bytes_until_nul(&octets).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
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

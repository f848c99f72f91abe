//! How a call is refused: with which error the system call fails.

use crate::kernel::datapath::bpf::{bpf, descriptor};
use aya_obj::generated::{bpf_attach_type, bpf_cmd, bpf_prog_type};
use std::io;

/// `mov r1, -111` · `call bpf_set_retval` · `mov r0, 0` · `exit`.
const INSTRUCTIONS: [u64; 4] = [0xffff_ff91_0000_01b7, 0x0000_00bb_0000_0085, 0xb7, 0x95];

/// Whether programs at these hooks may set the error of the call (`bpf_set_retval`, Linux 6.1); else it is always `EPERM`. Loads
/// a program of four instructions, and attaches it nowhere.
pub fn can_set_error() -> bool {
    load().is_ok()
}

fn load() -> io::Result<()> {
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
        kind: bpf_prog_type::BPF_PROG_TYPE_CGROUP_SOCK_ADDR as u32,
        count: u32::try_from(INSTRUCTIONS.len()).unwrap_or_default(),
        instructions: INSTRUCTIONS.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log: [0; 2],
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
        ifindex: 0,
        attach_type: bpf_attach_type::BPF_CGROUP_INET4_CONNECT as u32,
    };
    descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?).map(drop)
}

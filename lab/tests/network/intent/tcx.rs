//! Foreign TCX programs, by hand.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Offsets in `struct __sk_buff`.
pub(crate) const TC_INDEX: i16 = 44;
const LEN: i16 = 0;
pub(crate) const TC_CLASSID: i16 = 72;

/// `TCX_NEXT` and `TCX_DROP`.
pub(crate) const NEXT: i32 = -1;
pub(crate) const DROP: i32 = 2;

pub(crate) const EXIT: u64 = insn(0x95, 0, 0, 0, 0);

/// Where a program runs at an interface.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    IngressFirst,
    IngressLast,
    EgressLast,
}

/// `dst = imm`
pub(crate) const fn number(dst: u8, imm: i32) -> u64 {
    insn(0xb7, dst, 0, 0, imm)
}

/// Writes a field of the packet, and goes on.
pub(crate) fn set(fields: &[i16], value: u16) -> Vec<u64> {
    let mut program = vec![number(2, value.into())];
    program.extend(fields.iter().map(|field| insn(0x63, 1, 2, *field, 0)));
    program.extend([number(0, NEXT), EXIT]);
    program
}

/// Drops packets unless these bits of the field have this value. Lets ARP and neighbour discovery pass.
pub(crate) fn demand(field: i16, bits: u16, value: u16) -> Vec<u64> {
    const LONGEST_DISCOVERY: i32 = 90;
    vec![
        number(0, NEXT),
        insn(0x61, 3, 1, LEN, 0),
        insn(0xb5, 3, 0, 4, LONGEST_DISCOVERY),
        insn(0x61, 2, 1, field, 0),
        insn(0x57, 2, 0, 0, bits.into()),
        insn(0x15, 2, 0, 1, value.into()),
        number(0, DROP),
        EXIT,
    ]
}

const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> u64 {
    code as u64
        | (dst as u64) << 8
        | (src as u64) << 12
        | (off.cast_unsigned() as u64) << 16
        | (imm.cast_unsigned() as u64) << 32
}

/// Attaches a program to an interface of this network namespace. The descriptor holds it there.
pub(crate) fn attach(interface: &str, place: Place, program: &[u64]) -> OwnedFd {
    const PROG_LOAD: i64 = 5;
    const LINK_CREATE: i64 = 28;
    const SCHED_CLS: u64 = 3;
    const BEFORE: u64 = 1 << 3;
    const INGRESS: u64 = 46;
    const EGRESS: u64 = 47;
    let (attach_type, flags) = match place {
        Place::IngressFirst => (INGRESS, BEFORE),
        Place::IngressLast => (INGRESS, 0),
        Place::EgressLast => (EGRESS, 0),
    };
    let license = c"GPL";
    let mut load = [0u64; 18];
    load[0] = SCHED_CLS | (program.len() as u64) << 32;
    load[1] = program.as_ptr() as u64;
    load[2] = license.as_ptr() as u64;
    load[8] = attach_type << 32;
    let program = bpf(PROG_LOAD, &load);
    let ifindex = nix::net::if_::if_nametoindex(interface).unwrap();
    let mut attach = [0u64; 8];
    attach[0] = u64::try_from(program.as_raw_fd()).unwrap() | u64::from(ifindex) << 32;
    attach[1] = attach_type | flags << 32;
    bpf(LINK_CREATE, &attach)
}

/// `bpf(2)` for commands that answer with a descriptor.
fn bpf(command: i64, attributes: &[u64]) -> OwnedFd {
    // SAFETY: the size of the attributes is passed with them, and all that they point to outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a new descriptor without another owner.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) }
}

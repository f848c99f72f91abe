//! bpf(2) for programs of raw instructions, and test runs that are timed from outside.
//!
//! The kernel returns whole nanoseconds for a run, and an empty XDP program takes 4: too coarse for ratios. The time of the whole
//! call divided by the number of runs is finer; what the call does beside the runs takes microseconds.

use aya_obj::generated::{
    BPF_F_XDP_HAS_FRAGS, bpf_attach_type, bpf_attr, bpf_cmd, bpf_map_type, bpf_prog_type,
};
use epguard::kernel::datapath::bpf::{bpf, descriptor};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Which kind of program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tc,
    Xdp,
    /// For frames of several buffers.
    XdpFrags,
}

/// Loads a program of instructions, each 8 octets.
pub fn load(kind: Kind, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut attr = zeroed();
    attr.__bindgen_anon_3.insn_cnt = u32::try_from(instructions.len()).unwrap();
    attr.__bindgen_anon_3.insns = instructions.as_ptr().addr() as u64;
    attr.__bindgen_anon_3.license = c"GPL".as_ptr().addr() as u64;
    let program_type = if kind == Kind::Tc {
        bpf_prog_type::BPF_PROG_TYPE_SCHED_CLS
    } else {
        // As other loaders do: programs that call each other agree on it, and on the flag.
        attr.__bindgen_anon_3.expected_attach_type = bpf_attach_type::BPF_XDP as u32;
        bpf_prog_type::BPF_PROG_TYPE_XDP
    };
    attr.__bindgen_anon_3.prog_type = program_type as u32;
    if kind == Kind::XdpFrags {
        attr.__bindgen_anon_3.prog_flags = BPF_F_XDP_HAS_FRAGS;
    }
    // SAFETY: `insn_cnt` is that of the instructions, the license ends with 0; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?) }
}

/// Makes a map of one program to tail-call.
pub fn tail_call_map() -> io::Result<OwnedFd> {
    let kind = bpf_map_type::BPF_MAP_TYPE_PROG_ARRAY as u32;
    // SAFETY: the command takes no pointers, and returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_MAP_CREATE, &mut [kind, 4, 4, 1, 0])?) }
}

/// Makes the program the one to tail-call.
pub fn set_tail_call(map: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    let (key, value) = (0u32, program.as_raw_fd());
    let mut attr = [
        u64::from(map.as_raw_fd().cast_unsigned()),
        (&raw const key).addr() as u64,
        (&raw const value).addr() as u64,
        0,
    ];
    // SAFETY: key and value have 4 octets, as those of the map.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop)
}

/// What test runs gave.
pub struct Ran {
    /// Of the last run.
    pub action: u32,
    /// Nanoseconds for a run, by this process's clock.
    pub each_ns: f64,
    /// The same in whole nanoseconds by the kernel's: without the call around few runs.
    pub kernel_ns: u32,
}

/// Runs a program on a frame, over and over. Changes of the frame stay for the next run.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<Ran> {
    let mut attr = zeroed();
    attr.test.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.test.data_size_in = u32::try_from(frame.len()).unwrap();
    attr.test.data_in = frame.as_ptr().addr() as u64;
    attr.test.repeat = repeat;
    let begun = cpu_time();
    // SAFETY: the kernel reads `data_size_in` octets of the frame, and writes to no buffer.
    unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }?;
    let took = cpu_time().saturating_sub(begun);
    // SAFETY: a variant of integers, which the kernel has filled in.
    let test = unsafe { attr.test };
    Ok(Ran {
        action: test.retval,
        each_ns: took.as_secs_f64() * 1e9 / f64::from(repeat),
        kernel_ns: test.duration,
    })
}

fn zeroed() -> bpf_attr {
    // SAFETY: all-zero is a valid value of this union of integers.
    unsafe { std::mem::zeroed() }
}

/// Of this thread: without waits, and without other threads on the same processor.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

//! bpf(2) for programs of raw instructions, and test runs that are timed from outside.
//!
//! The kernel returns whole nanoseconds for a run, and an empty XDP program takes 4: too coarse for ratios. The time of the whole
//! call divided by the number of runs is finer; what the call does beside the runs takes microseconds.

use aya_obj::generated::{bpf_attach_type, bpf_cmd, bpf_map_type, bpf_prog_type};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

/// `BPF_F_XDP_HAS_FRAGS`: programs that call each other agree on it.
const XDP_HAS_FRAGS: u32 = 1 << 5;

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
        interface: u32,
        attach_type: u32,
    }
    let program_type = match kind {
        Kind::Tc => bpf_prog_type::BPF_PROG_TYPE_SCHED_CLS,
        Kind::Xdp | Kind::XdpFrags => bpf_prog_type::BPF_PROG_TYPE_XDP,
    };
    let mut attr = Attr {
        kind: program_type as u32,
        count: u32::try_from(instructions.len()).unwrap(),
        instructions: instructions.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log: [0; 2],
        kernel_version: 0,
        flags: if kind == Kind::XdpFrags { XDP_HAS_FRAGS } else { 0 },
        name: [0; 16],
        interface: 0,
        // As other loaders do: programs that call each other agree on it.
        attach_type: if kind == Kind::Tc {
            0
        } else {
            bpf_attach_type::BPF_XDP as u32
        },
    };
    descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?)
}

/// Makes a map of one program to tail-call.
pub fn tail_call_map() -> io::Result<OwnedFd> {
    let kind = bpf_map_type::BPF_MAP_TYPE_PROG_ARRAY as u32;
    descriptor(bpf(bpf_cmd::BPF_MAP_CREATE, &mut [kind, 4, 4, 1, 0])?)
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
    bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)
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
    #[repr(C)]
    #[derive(Default)]
    struct Attr {
        program: RawFd,
        action: u32,
        size_in: u32,
        size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_sizes: [u32; 2],
        contexts: [u64; 2],
    }
    let mut attr = Attr {
        program: program.as_raw_fd(),
        size_in: u32::try_from(frame.len()).unwrap(),
        data_in: frame.as_ptr().addr() as u64,
        repeat,
        ..Attr::default()
    };
    let begun = cpu_time();
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr)?;
    let took = cpu_time().saturating_sub(begun);
    Ok(Ran {
        action: attr.action,
        each_ns: took.as_secs_f64() * 1e9 / f64::from(repeat),
        kernel_ns: attr.duration,
    })
}

/// Of this thread: without waits, and without other threads on the same processor.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

fn bpf<T>(command: bpf_cmd, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: integers laid out as the kernel's union, with their size; pointers among them are to buffers of the callers.
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

fn descriptor(raw: libc::c_long) -> io::Result<OwnedFd> {
    let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
    // SAFETY: the command that returned it made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

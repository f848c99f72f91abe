//! bpf(2) for programs of raw instructions, and test runs that are timed from outside.
//!
//! The kernel returns whole nanoseconds for a run, and an empty XDP program takes 4: too coarse for
//! ratios. The time of the whole call divided by the number of runs is finer; what the call does
//! beside the runs takes microseconds.

use aya_obj::generated::{
    BPF_F_TEST_XDP_LIVE_FRAMES, bpf_attach_type, bpf_attr, bpf_cmd, bpf_prog_type,
};
use epguard::kernel::datapath::bpf::{bpf, descriptor};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Frames that [`receive`] has the kernel make at a time.
pub(crate) const FRAMES: u32 = 64;

/// Which kind of program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tc,
    Xdp,
}

/// Loads a program that passes every packet at once: `TC_ACT_UNSPEC`, `XDP_PASS`.
pub(crate) fn empty(kind: Kind) -> OwnedFd {
    let (program_type, attach_type, pass) = match kind {
        Kind::Tc => (bpf_prog_type::BPF_PROG_TYPE_SCHED_CLS, 0, -1_i32),
        Kind::Xdp => (
            bpf_prog_type::BPF_PROG_TYPE_XDP,
            bpf_attach_type::BPF_XDP as u32,
            2,
        ),
    };
    // `r0 = PASS`, `exit`.
    let instructions = [u64::from(pass.cast_unsigned()) << 32 | 0xb7, 0x95];
    let mut attr = zeroed();
    attr.__bindgen_anon_3.prog_type = program_type as u32;
    attr.__bindgen_anon_3.expected_attach_type = attach_type;
    attr.__bindgen_anon_3.insn_cnt = u32::try_from(instructions.len()).unwrap();
    attr.__bindgen_anon_3.insns = instructions.as_ptr().addr() as u64;
    attr.__bindgen_anon_3.license = c"GPL".as_ptr().addr() as u64;
    // SAFETY: `insn_cnt` is that of the instructions, the license ends with 0; the command returns
    // a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr).unwrap()) }.unwrap()
}

/// What test runs gave.
pub(crate) struct Ran {
    /// Of the last run.
    pub(crate) action: u32,
    /// Nanoseconds for a run, by this thread's clock.
    pub(crate) each_ns: f64,
    /// The same in whole nanoseconds by the kernel's: without the call around few runs.
    pub(crate) kernel_ns: u32,
}

/// Runs a program on a frame, over and over. Changes of the frame stay for the next run.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> Ran {
    let mut attr = zeroed();
    attr.test.prog_fd = program.as_raw_fd().cast_unsigned();
    attr.test.data_size_in = u32::try_from(frame.len()).unwrap();
    attr.test.data_in = frame.as_ptr().addr() as u64;
    attr.test.repeat = repeat;
    let begun = used();
    // SAFETY: the kernel reads `data_size_in` octets of the frame, and writes to no buffer.
    unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }.unwrap();
    let took = used().saturating_sub(begun);
    // SAFETY: a variant of integers, which the kernel has filled in.
    let test = unsafe { attr.test };
    Ran {
        action: test.retval,
        each_ns: took.as_secs_f64() * 1e9 / f64::from(repeat),
        kernel_ns: test.duration,
    }
}

/// Puts copies of a frame into an interface as its driver does: the kernel runs the XDP program on
/// each, and passes what the program passes to the IP stack. Linux 5.18.
pub(crate) fn receive(xdp: BorrowedFd<'_>, ifindex: u32, frame: &[u8], repeat: u32) {
    let length = u32::try_from(frame.len()).unwrap();
    // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let context = [0, length, 0, ifindex, 0, 0];
    let mut attr = zeroed();
    attr.test.prog_fd = xdp.as_raw_fd().cast_unsigned();
    attr.test.data_size_in = length;
    attr.test.data_in = frame.as_ptr().addr() as u64;
    attr.test.ctx_size_in = u32::try_from(size_of_val(&context)).unwrap();
    attr.test.ctx_in = context.as_ptr().addr() as u64;
    attr.test.repeat = repeat;
    attr.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    attr.test.batch_size = FRAMES;
    // SAFETY: the kernel reads the frame and the context, whose lengths it is given, and writes to
    // no buffer.
    unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }.unwrap();
}

fn zeroed() -> bpf_attr {
    // SAFETY: all-zero is a valid value of this union of integers.
    unsafe { std::mem::zeroed() }
}

/// Time that the calling thread has used of a processor. The kernel adds the packets that it
/// handles for the thread, and leaves out the time of other processes.
pub(crate) fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

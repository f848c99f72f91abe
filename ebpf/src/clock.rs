//! Time, and on whose behalf it passes.

use aya_ebpf::helpers::generated::{bpf_get_current_pid_tgid, bpf_ktime_get_boot_ns};
use epguard_common::Moment;

/// Nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine sleeps: a lease must not survive that. Linux 5.8.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Now, on behalf of which thread, where sockets are followed since `since_ns`.
#[inline(always)]
pub fn moment(since_ns: u64) -> Moment {
    // SAFETY: no arguments.
    let thread = unsafe { bpf_get_current_pid_tgid() };
    Moment {
        now_ns: now_ns(),
        since_ns,
        tid: thread as u32,
    }
}

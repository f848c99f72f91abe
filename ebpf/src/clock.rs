//! Time, and on whose behalf it passes.

use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_ktime_get_boot_ns};
use epguard_common::Moment;

/// Nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine sleeps: a lease must not survive that. Linux 5.8.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Now, on behalf of which thread, where sockets are followed since `since_ns`. TC programs may ask for a thread's number
/// only from Linux 6.10 on, but always for where the kernel keeps it, which is as good: 64 octets apart at least, so that
/// 256 GiB of memory have different ones.
#[inline(always)]
pub fn moment(since_ns: u64) -> Moment {
    // SAFETY: no arguments.
    let task = unsafe { bpf_get_current_task() };
    Moment {
        now_ns: now_ns(),
        since_ns,
        thread: (task >> 6) as u32,
    }
}

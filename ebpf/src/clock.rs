//! The time, and the thread that the kernel runs for.

use aya_ebpf::helpers::generated::{bpf_get_current_task, bpf_ktime_get_boot_ns};
use core::cell::Cell;

/// Nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine sleeps: a lease must not
/// survive that. Linux 5.8.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// The time of one run of a program: reading the clock costs more than most of what a program does.
pub struct Clock(Cell<u64>);

impl Clock {
    /// A clock that was not read yet.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(Cell::new(0))
    }

    /// [`now_ns`], read when it is needed first.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        if self.0.get() == 0 {
            self.0.set(now_ns());
        }
        self.0.get()
    }
}

/// The thread that the kernel runs for: a part of the address of its `task_struct`. They lie at
/// least 64 octets apart, so 32 bits are enough for 256 GiB of memory.
#[inline(always)]
pub fn thread() -> u32 {
    // SAFETY: no arguments.
    (unsafe { bpf_get_current_task() } >> 6) as u32
}

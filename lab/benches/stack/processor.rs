//! The processor of a measurement.

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::time::Duration;

/// Keeps the calling thread on the processor that it is on. Threads that it starts stay there, too.
pub(crate) fn stay() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
}

/// Time that the calling thread has used of a processor. The kernel adds the packets that it handles for the thread, and leaves
/// out the time of other processes.
pub(crate) fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

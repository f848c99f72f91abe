//! The processor that a thread runs on.

use std::io;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps the calling thread on the processor that it is on. Threads that it starts stay there, too.
pub fn pin_to_processor() -> io::Result<()> {
    let mut here = CpuSet::new();
    here.set(sched_getcpu()?)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &here)?)
}

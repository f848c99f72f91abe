//! TCX links of one interface, Linux 6.6.

use super::bpf::{self, Target};
use super::hook::Hook;
use super::links;
use super::pins::Pins;
use anyhow::{Context as _, Result};
use std::io;
use std::os::fd::BorrowedFd;

/// Whether this kernel has TCX. Queries the loopback interface, which is number 1 in every network namespace.
pub fn is_supported() -> bool {
    let asked = bpf::tcx_programs(1, Hook::Ingress.attach_type());
    !asked.is_err_and(|error: io::Error| error.raw_os_error() == Some(libc::EINVAL))
}

/// Attaches a program before all others, or puts it into the pinned link if that is attached here.
pub fn attach(pins: &Pins, ifindex: u32, hook: Hook, program: BorrowedFd<'_>, id: u32) -> Result<()> {
    // A link may have left with its interface for another network namespace, where its number may be the same.
    let sound = |_: &_| {
        let programs = bpf::tcx_programs(ifindex, hook.attach_type()).context("bpf_prog_query")?;
        Ok(programs.contains(&id))
    };
    links::attach(&pins.link(ifindex, hook), program, Target::Interface(ifindex), hook.attach_type(), sound)
        .map(drop)
}

/// Severs both links of an interface, which may be gone; false if there was none.
pub fn detach(pins: &Pins, ifindex: u32) -> Result<bool> {
    let mut removed = false;
    for hook in Hook::ALL {
        removed |= links::remove(&pins.link(ifindex, hook))?;
    }
    Ok(removed)
}

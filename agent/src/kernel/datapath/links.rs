//! Pinned links: made, taken over, and severed.

use super::bpf::{self, Target, is_one_of};
use super::hook::Hook;
use super::pins::{self, Pins};
use anyhow::{Context as _, Result};
use aya_obj::generated::{BPF_F_BEFORE, bpf_attach_type};
use nix::libc;
use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// Puts a program into the link pinned at `path`. If that fails, or the link is not `sound`
/// afterwards, severs it and pins a new link. True if the link was taken over: nothing has passed
/// without a program.
pub fn attach(
    path: &Path,
    program: BorrowedFd<'_>,
    (target, flags): (Target<'_>, u32),
    attach_type: bpf_attach_type,
    sound: impl Fn(&OwnedFd) -> Result<bool>,
) -> Result<bool> {
    if let Some(link) = bpf::open(path)? {
        match bpf::link_update(link.as_fd(), program) {
            Ok(()) if sound(&link)? => return Ok(true),
            Ok(()) => {
                tracing::warn!(pin = %path.display(), "the pinned link is attached elsewhere: attaching anew");
            }
            Err(error) => {
                tracing::warn!(pin = %path.display(), %error, "the pinned link is severed: attaching anew");
            }
        }
        remove(path)?;
    }
    let link = bpf::link_create(program, target, attach_type, flags).context("bpf_link_create")?;
    bpf::pin(link.as_fd(), path)?;
    Ok(false)
}

/// Severs the link pinned at `path` and removes the pin; false if there is none.
pub fn remove(path: &Path) -> Result<bool> {
    let Some(link) = bpf::open(path)? else {
        return Ok(false);
    };
    // A link that is severed, or of a kind that the kernel can't sever, ends with its last
    // descriptor.
    if let Err(error) = bpf::link_detach(link.as_fd()) {
        tracing::debug!(pin = %path.display(), %error, "nothing to sever");
    }
    pins::unpin(path)?;
    Ok(true)
}

/// Ids of the programs in pinned links: ours, where names of programs cannot be read.
pub fn pinned_programs(pins: &Pins) -> Result<BTreeSet<u32>> {
    let mut programs = BTreeSet::new();
    for version in pins.versions(false)? {
        for path in pins::list(&version.join("links"))? {
            programs.extend(bpf::open(&path)?.and_then(|link| bpf::link_program(&link).ok()));
        }
    }
    Ok(programs)
}

/// Whether this kernel has TCX, as from Linux 6.6. Queries the loopback interface, which is number
/// 1 in every network namespace.
pub fn has_tcx() -> bool {
    let asked = bpf::tcx_programs(1, Hook::Ingress.attach_type());
    !asked.is_err_and(|error| is_one_of(&error, &[libc::EINVAL]))
}

/// Attaches a program to an interface before all others, or puts it into the pinned link if that is
/// attached here.
pub fn attach_tcx(
    pins: &Pins,
    ifindex: u32,
    hook: Hook,
    program: BorrowedFd<'_>,
    id: u32,
) -> Result<()> {
    // A link may have left with its interface for another network namespace, where its number may
    // be the same.
    let sound = |_: &_| {
        let programs = bpf::tcx_programs(ifindex, hook.attach_type()).context("bpf_prog_query")?;
        Ok(programs.contains(&id))
    };
    let first = (Target::Interface(ifindex), BPF_F_BEFORE);
    attach(
        &pins.link(ifindex, hook),
        program,
        first,
        hook.attach_type(),
        sound,
    )
    .map(drop)
}

/// Severs both TCX links of an interface, which may be gone; false if there was none.
pub fn detach_tcx(pins: &Pins, ifindex: u32) -> Result<bool> {
    let mut removed = false;
    for hook in Hook::ALL {
        removed |= detach_tcx_at(pins, ifindex, hook)?;
    }
    Ok(removed)
}

/// The same of one hook.
pub fn detach_tcx_at(pins: &Pins, ifindex: u32, hook: Hook) -> Result<bool> {
    remove(&pins.link(ifindex, hook))
}

/// Removes the XDP program's link; false if it is not there.
pub fn detach_xdp(pins: &Pins, ifindex: u32) -> Result<bool> {
    remove(&pins.xdp_link(ifindex))
}

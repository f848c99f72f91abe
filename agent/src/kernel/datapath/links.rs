//! Pinned links: made, taken over, and severed.

use super::bpf::{self, Target};
use anyhow::{Context as _, Result};
use aya_obj::generated::bpf_attach_type;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// Puts a program into the link pinned at `path`. If that fails, or the link is not `sound` afterwards, severs it and
/// pins a new link. True if the link was taken over: nothing has passed without a program.
pub fn attach(
    path: &Path,
    program: BorrowedFd<'_>,
    target: Target<'_>,
    attach_type: bpf_attach_type,
    sound: impl Fn(&OwnedFd) -> Result<bool>,
) -> Result<bool> {
    if let Some(link) = open(path)? {
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
    let link = bpf::link_create(program, target, attach_type).context("bpf_link_create")?;
    bpf::pin(link.as_fd(), path).with_context(|| format!("cannot pin {}", path.display()))?;
    Ok(false)
}

/// Severs the link pinned at `path` and removes the pin; false if there is none.
pub fn remove(path: &Path) -> Result<bool> {
    let Some(link) = open(path)? else {
        return Ok(false);
    };
    // A link that is severed, or of a kind that the kernel can't sever, ends with its last descriptor.
    if let Err(error) = bpf::link_detach(link.as_fd()) {
        tracing::debug!(pin = %path.display(), %error, "nothing to sever");
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the pin {}", path.display()))
        }
        _ => Ok(true),
    }
}

/// Id of the cgroup that the link pinned at `path` is attached to, 0 if it is severed; none if there is no
/// link, or the kernel does not show it.
pub fn cgroup(path: &Path) -> Result<Option<u64>> {
    Ok(open(path)?.and_then(|link| bpf::link_cgroup(&link).ok()))
}

/// Opens the link pinned at `path`; none if there is none.
pub fn open(path: &Path) -> Result<Option<OwnedFd>> {
    bpf::open(path).with_context(|| format!("cannot open the pin {}", path.display()))
}

//! Writes that the kernel refuses: it has no room for an entry, or none to remove.

use aya::maps::MapError;
use nix::libc;
use std::io::ErrorKind;

/// Flag of a map update: only a key that is not there.
pub(super) const BPF_NOEXIST: u64 = 1;

/// The map has its most entries, or the kernel no memory for another one.
pub(super) fn is_full(error: &MapError) -> bool {
    let MapError::SyscallError(error) = error else {
        return false;
    };
    matches!(
        error.io_error.raw_os_error(),
        Some(libc::E2BIG | libc::ENOMEM)
    )
}

/// Accepts the removal of an entry that another process has removed already.
pub(super) fn accept_absent(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => {
            Ok(())
        }
        other => other,
    }
}

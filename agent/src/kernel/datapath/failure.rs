//! Errors of system calls by their numbers.

use std::io;

/// Whether a system call failed with one of these numbers, as a cause of the error.
#[must_use]
pub fn failed_with(error: &anyhow::Error, numbers: &[i32]) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    causes.any(|cause| is_one_of(cause, numbers))
}

/// Whether the error has one of these numbers.
pub fn is_one_of(error: &io::Error, numbers: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

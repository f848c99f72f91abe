//! Standard output, which its reader may close at any time (`kubectl epguard drops -f | head`).

use anyhow::{Error, Result};
use std::io::{self, Write as _};

/// Prints a line, without colours where there is no terminal. Errors: the output fails, or its reader has left.
pub fn line(text: &str) -> Result<()> {
    writeln!(anstream::stdout(), "{text}")?;
    Ok(())
}

/// Whether an error is only that the reader of the output has left.
#[must_use]
pub fn is_unread(error: &Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

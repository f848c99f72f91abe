//! Standard output and standard error, which their readers may close at any time (`kubectl epguard drops -f | head`).

use crate::shared::plain::plain;
use anyhow::Result;
use std::io::{self, Write as _};

/// Prints a text, without colours where there is no terminal. Errors: the output fails, or its reader has left.
pub fn line(text: &str) -> Result<()> {
    writeln!(anstream::stdout(), "{text}")?;
    Ok(())
}

/// Prints one line on standard error, with any text made plain. Without a reader it is lost.
pub fn error(text: &str) {
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

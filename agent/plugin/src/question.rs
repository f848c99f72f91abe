//! The question before a change.

use anyhow::{Context as _, Result, ensure};
use std::io::{IsTerminal as _, Write as _, stderr, stdin};

/// Asks at the terminal. Errors: there is none, or the answer is not yes.
pub fn ask_user(yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    ensure!(
        stdin().is_terminal(),
        "nothing is changed: there is no terminal to ask at; pass --yes"
    );
    drop_typed_ahead();
    write!(stderr(), "Change it? [y/N] ").context("cannot ask")?;
    let mut answer = String::new();
    stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    ensure!(
        ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()),
        "nothing is changed"
    );
    Ok(())
}

/// Drops what was typed before the question: it cannot be an answer to it.
#[cfg(unix)]
fn drop_typed_ahead() {
    use rustix::termios::{QueueSelector, tcflush};
    // A terminal that cannot do so still asks.
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// Does nothing: `FlushConsoleInputBuffer` would need a crate of its own, and unsafe code.
#[cfg(not(unix))]
const fn drop_typed_ahead() {}

//! A program under a pseudo-terminal.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::num::NonZeroU16;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result};
use nix::libc;
use nix::pty::{Winsize, openpty};

use super::cast::{Event, Recording};
use crate::process::name;

/// Wider than any line of the demo.
const COLUMNS: NonZeroU16 = NonZeroU16::new(100).expect("not zero");

/// Runs the program to its end. Its output goes into the recording, in colours, and is not printed.
pub(super) fn record(mut command: Command) -> Result<(Recording, ExitStatus)> {
    let name = name(&command);
    let size = Winsize {
        ws_row: 30,
        ws_col: COLUMNS.get(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(&size, None).context("no pseudo-terminal")?;
    let copy = || terminal.slave.try_clone().context("no pseudo-terminal");
    command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    // The output ends when the last process closes the terminal: this process must not hold it.
    drop((command, terminal.slave));
    let events = events(File::from(terminal.master), start)?;
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    Ok((
        Recording {
            columns: COLUMNS,
            events,
        },
        status,
    ))
}

fn events(mut terminal: File, start: Instant) -> Result<Vec<Event>> {
    let (mut events, mut rest, mut chunk) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        match terminal.read(&mut chunk) {
            Ok(length @ 1..) => rest.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Linux returns EIO once no process has the terminal open.
            Err(error) if error.raw_os_error() != Some(libc::EIO) => return Err(error.into()),
            Ok(_) | Err(_) => return Ok(events),
        }
        let text = complete(&mut rest);
        if !text.is_empty() {
            events.push(Event {
                at: start.elapsed().as_secs_f64(),
                text,
            });
        }
    }
}

/// Takes the complete UTF-8 from the bytes; a character that a read has cut in two stays.
fn complete(bytes: &mut Vec<u8>) -> String {
    let length = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    };
    let taken: Vec<u8> = bytes.drain(..length).collect();
    String::from_utf8_lossy(&taken).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_a_terminal_and_its_output_and_status_are_kept() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "test -t 1 && printf 'a━\\n'; exit 3"]);
        let (recording, status) = record(shell).unwrap();
        let text: String = recording.events.iter().map(|event| &*event.text).collect();
        assert_eq!((&*text, status.code()), ("a━\r\n", Some(3)));
    }

    #[test]
    fn a_character_that_is_cut_in_two_waits_for_its_rest() {
        let mut bytes = "a━".as_bytes()[..3].to_vec();
        assert_eq!(complete(&mut bytes), "a");
        bytes.push("━".as_bytes()[2]);
        assert_eq!(complete(&mut bytes), "━");
        assert!(bytes.is_empty());
    }
}

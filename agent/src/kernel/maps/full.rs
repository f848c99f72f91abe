//! Writes that the kernel refuses: it has no room for an entry, or has none to remove.

use super::{Writer, gate};
use aya::maps::MapError;
use epguard_core::plan::Op;
use std::io::ErrorKind;

impl Writer {
    /// Entries that the kernel had no room for when the tables were written last: those packets pass, or are rejected
    /// instead of redirected.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Writes to a map. An entry that finds no room is left out, together with an older one of the same key, and tried
    /// again with the next change. Ending the agent would not help: its successor would meet the same full map.
    pub(super) fn write_or_leave_out(&mut self, op: &Op) -> Result<(), MapError> {
        let written = self.write(op);
        let Some(removal) = op.removal().filter(|_| written.as_ref().is_err_and(is_full)) else {
            written?;
            self.note_installed(op);
            return Ok(());
        };
        self.left_out += 1;
        op.note(&mut self.to_retry);
        self.write(&removal)?;
        self.note_installed(&removal);
        Ok(())
    }

    fn note_installed(&mut self, op: &Op) {
        if let Some((addr, bit, added)) = gate::entry(op) {
            let was_there = op.is_installed(&self.installed);
            if added && !was_there {
                self.gate.count(addr, bit);
            } else if !added && was_there {
                self.gate.uncount(addr, bit);
            }
        }
        op.apply(&mut self.installed);
    }
}

/// The map has its most entries, or the kernel no memory for another one.
pub(super) fn is_full(error: &MapError) -> bool {
    let MapError::SyscallError(error) = error else {
        return false;
    };
    matches!(error.io_error.raw_os_error(), Some(libc::E2BIG | libc::ENOMEM))
}

/// Accepts the removal of an entry that another process has removed already.
pub(super) fn absent(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

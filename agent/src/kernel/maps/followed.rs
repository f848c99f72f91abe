//! Since when the node's sockets are followed without a pause.

use super::{Writer, count};
use crate::shared::clock::boot_ns;
use anyhow::Result;

impl Writer {
    /// Sockets have gone unnoticed until now, and are followed from now on: what was noted of them is believed no more.
    ///
    /// Errors: VIEW cannot be written.
    pub fn forget_sockets(&mut self) -> Result<()> {
        self.vouched.since_ns = boot_ns();
        self.vouch()
    }

    /// Whether the programs look at no socket now, so that they know none.
    pub(super) fn nobody_is_followed(&self) -> bool {
        self.vouched.suspects == 0 && self.vouched.flows == 0
    }

    /// The programs go by VIEW, not by SUSPECTS itself: where the two differ, nobody followed sockets.
    pub(super) fn resume_following(&mut self) -> Result<()> {
        if self.nobody_is_followed() {
            self.forget_sockets()?;
        }
        self.vouched.suspects = count(self.found.tables.suspects.len());
        Ok(())
    }
}

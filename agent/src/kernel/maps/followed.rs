//! Since when the node's sockets are followed without a pause.

use super::{Writer, count};
use crate::shared::clock::boot_ns;
use anyhow::Result;

impl Writer {
    /// Makes all earlier entries of SOCKETS invalid: calls may have been missed until now. Sockets are followed from
    /// now on.
    ///
    /// Errors: VIEW cannot be written.
    pub fn forget_sockets(&mut self) -> Result<()> {
        self.vouched.since_ns = boot_ns();
        self.vouch()
    }

    /// True if the programs follow no socket now, so that they note none.
    pub(super) fn nobody_is_followed(&self) -> bool {
        self.vouched.suspects == 0 && self.vouched.flows == 0
    }

    /// Restores whether sockets are followed. The programs use VIEW, not SUSPECTS itself: where the two differ, no
    /// socket was followed.
    pub(super) fn resume_following(&mut self) -> Result<()> {
        if self.nobody_is_followed() {
            self.forget_sockets()?;
        }
        self.vouched.suspects = count(self.found.tables.suspects.len());
        Ok(())
    }
}

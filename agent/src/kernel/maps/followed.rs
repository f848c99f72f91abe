//! Since when the node's sockets are followed without a pause.

use super::{Writer, count};
use crate::shared::clock::boot_ns;
use anyhow::Result;
use epguard_common::View;

impl Writer {
    /// Makes all earlier entries of SOCKETS invalid: calls may have been missed until now. Sockets are followed from
    /// now on.
    ///
    /// Errors: VIEW cannot be written.
    pub fn forget_sockets(&mut self) -> Result<()> {
        self.vouched.since_ns = boot_ns();
        self.vouch()
    }

    /// Lets the programs judge packets by where a socket load balancer has connected their sockets. Earlier entries of
    /// CONNECTIONS become invalid if calls may have been missed until now. `everywhere`: whether all interfaces are hooked.
    ///
    /// Errors: VIEW cannot be written.
    pub fn judge_by_socket(&mut self, in_force: bool, everywhere: bool) -> Result<()> {
        let socket_lb = match (in_force, everywhere) {
            (false, _) => 0,
            (true, false) => View::FOUND,
            (true, true) => View::HOOKED,
        };
        if self.vouched.socket_lb == socket_lb {
            return Ok(());
        }
        if self.vouched.socket_lb == 0 {
            self.vouched.socket_lb_epoch = epoch();
        }
        self.vouched.socket_lb = socket_lb;
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
        self.vouched.suspects = count(self.restored.tables.suspects.len());
        Ok(())
    }
}

/// The time in milliseconds, as far as 32 bits go.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the same number comes again after 49 days"
)]
fn epoch() -> u32 {
    (boot_ns() / 1_000_000) as u32
}

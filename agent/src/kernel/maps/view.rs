//! VIEW: which bits of a packet's fields the programs may use, and since when the node's sockets are followed without a
//! pause.

use super::{Writer, count};
use crate::shared::clock::boot_ns;
use anyhow::Result;
use epguard_common::View;

impl Writer {
    /// The bits that the programs may use now; at first those that an earlier process has permitted.
    #[must_use]
    pub fn permitted(&self) -> u16 {
        u16::try_from(self.vouched.carrier).unwrap_or_default()
    }

    /// Lets the programs use these bits of `tc_index` and `tc_classid` from now on, as long as the lease runs.
    /// `wipers`: whether a foreign program may wipe them between our hooks.
    ///
    /// Errors: VIEW cannot be written.
    pub fn permit(&mut self, bits: u16, wipers: bool) -> Result<()> {
        let (carrier, wipers) = (u32::from(bits), u32::from(wipers));
        if (self.vouched.carrier, self.vouched.wipers) == (carrier, wipers) {
            return Ok(());
        }
        (self.vouched.carrier, self.vouched.wipers) = (carrier, wipers);
        self.vouch()
    }

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

/// Returns the number that marks our replies to denied packets: the pinned one, since replies of an earlier process may
/// be under way, or a random one.
/// No other program and no pod can guess it: 255 numbers of the lower half whose low five bits are zero, and which are
/// not [`JUDGED`](epguard_common::JUDGED).
pub(super) fn answer(pinned: u16) -> u16 {
    if pinned == 0 {
        0x6000 + 0x20 * fastrand::u16(1..256)
    } else {
        pinned
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

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{CARRIER_HIGH, JUDGED, Slot};

    #[test]
    fn the_mark_of_own_answers_fits_every_carrier_and_is_no_slot() {
        for _ in 0..1000 {
            let answer = answer(0);
            assert_eq!(answer & !CARRIER_HIGH, 0);
            assert_eq!(super::answer(answer), answer);
            assert!(answer != JUDGED && Slot::from_carried(answer) == Slot::NONE && answer != 0);
        }
    }
}

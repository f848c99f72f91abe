//! VIEW: which bits of a packet's fields the programs may use.

use super::Writer;
use anyhow::Result;

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

//! Values of map layout v1, in octets. Its keys are those of the present layout.

use epguard_common::{Action, Denial, Mode, Reason, Slot, Suspect, Uid, UidState};
use epguard_core::state::OrphanIp;
use std::time::Duration;

pub type RawView = [u8; 40];
pub type RawConfig = [u8; 68];
pub type RawSlot = [u8; 2];
pub type RawSuspect = [u8; 48];
pub type RawDenial = [u8; 80];
pub type RawTerminated = [u8; 64];

pub fn suspect(raw: &RawSuspect) -> Option<Suspect> {
    Some(Suspect {
        dead_uid: uid(raw, 0)?,
        flags: number(raw, 16)?,
        ..Suspect::default()
    })
}

/// Reads a denial. None for numbers that no epguard wrote.
pub fn denial(raw: &RawDenial) -> Option<Denial> {
    Some(Denial {
        dead_uid: uid(raw, 0)?,
        owner_uid: uid(raw, 16)?,
        boot_id: uid(raw, 32)?,
        reason: Reason::from_number(number(raw, 48)?)?,
        uid_state: match number(raw, 52)? {
            1 => UidState::Retired,
            2 => UidState::Dead,
            _ => return None,
        },
        mode: Mode::from_raw(number(raw, 56)?),
        held: number(raw, 60)?,
        action: Action::from_raw(number(raw, 64)?),
        reserved: 0,
        slot_since_ns: nanoseconds(raw, 72)?,
    })
}

pub fn orphan_ip(raw: &RawTerminated) -> Option<OrphanIp> {
    Some(OrphanIp {
        dead: uid(raw, 0)?,
        mode: Mode::from_raw(number(raw, 56)?),
        lifted: Some(lifted_ns(raw))
            .filter(|at| *at != 0)
            .map(Duration::from_nanos),
    })
}

/// When a packet from the IP was seen; 0: never.
pub fn lifted_ns(raw: &RawTerminated) -> u64 {
    nanoseconds(raw, 24).unwrap_or_default()
}

pub const fn slot(raw: RawSlot) -> Slot {
    Slot {
        number: u16::from_ne_bytes(raw),
    }
}

fn uid(raw: &[u8], at: usize) -> Option<Uid> {
    let octets = *raw.get(at..)?.first_chunk()?;
    Some(Uid { octets })
}

pub fn number(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

pub fn nanoseconds(raw: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_of_v1_is_read_field_by_field_and_invalid_numbers_are_refused() {
        let mut raw = [0; 80];
        for (at, octet) in [(0, 0xaa), (16, 0xbb), (32, 0xcc)] {
            raw[at..at + 16].fill(octet);
        }
        for (at, number) in [(48, 2u32), (52, 2), (56, 1), (60, 1), (64, 2)] {
            raw[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        raw[72..].copy_from_slice(&7u64.to_ne_bytes());
        let uid = |octet| Uid { octets: [octet; 16] };
        let expected = Denial {
            dead_uid: uid(0xaa),
            owner_uid: uid(0xbb),
            boot_id: uid(0xcc),
            reason: Reason::Reused,
            uid_state: UidState::Dead,
            mode: Mode::Observe,
            held: 1,
            action: Action::Reject,
            reserved: 0,
            slot_since_ns: 7,
        };
        assert_eq!(denial(&raw), Some(expected));
        for (at, number) in [(48, 77), (52, 0), (52, 77)] {
            let mut scribbled = raw;
            scribbled[at..at + 4].copy_from_slice(&u32::to_ne_bytes(number));
            assert_eq!(denial(&scribbled), None, "{at} {number}");
        }
    }
}

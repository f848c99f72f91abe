//! What `epguard-common` says of a frame in the world that `world::fill` writes: the programs have to say the same.

use super::world::{
    BANK, DRAINING, INNOCENT, LIVE, MOVED, OTHER_PORT, PORT, RETIRED, REUSED, REUSED_V6, SHOP,
};
use epguard_common::{
    Addr, Bytes, DenialKey, Intent, Mode, Model, Packet, Proof, Reason, Slot, Suspect, UidState, Verdict,
    judge, parse,
};

/// The verdict on a frame; its destination is VIP and endpoint in one.
pub fn expected(frame: &[u8]) -> Verdict {
    parsed(frame).map_or(Verdict::Clear, |packet| judge(&packet, &World))
}

/// The packet in a frame.
fn parsed(frame: &[u8]) -> Option<Packet> {
    let (ethernet, payload) = frame.split_at(14);
    parse(
        &Payload(payload),
        u16::from_be_bytes([ethernet[12], ethernet[13]]),
    )
}

struct Payload<'a>(&'a [u8]);

impl Bytes for Payload<'_> {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.0.get(offset as usize..)?.get(..N)?.try_into().ok()
    }

    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        let mut words = [0; N];
        for (word, at) in words.iter_mut().zip((offset..).step_by(4)) {
            *word = u32::from_ne_bytes(self.read(at)?);
        }
        Some(words)
    }
}

struct World;

impl Model for World {
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        match *addr {
            REUSED | REUSED_V6 | RETIRED | MOVED | LIVE => Some(Suspect::DENIED),
            DRAINING => Some(Suspect::DRAINING),
            _ => None,
        }
    }

    fn intent(&self, packet: &Packet) -> Intent {
        let affected = packet.transport.has_ports() && matches!(packet.protocol, 6 | 17 | 132);
        let slot = match packet.dst {
            MOVED if affected && packet.dst_port == PORT => BANK,
            REUSED | REUSED_V6 | RETIRED | DRAINING | INNOCENT | LIVE
                if affected && [PORT, OTHER_PORT].contains(&packet.dst_port) =>
            {
                SHOP
            }
            _ => Slot::NONE,
        };
        Intent::carried(slot)
    }

    fn denial(&self, target: &DenialKey) -> Option<Proof> {
        if target.slot != SHOP || target.port != PORT {
            return None;
        }
        let (reason, uid_state) = match target.addr {
            REUSED | REUSED_V6 | MOVED | INNOCENT => (Reason::Reused, UidState::Dead),
            RETIRED => (Reason::RetiredBackend, UidState::Retired),
            LIVE => (Reason::Reused, UidState::Live),
            _ => return None,
        };
        Some(Proof {
            reason,
            uid_state,
            mode: Mode::Enforce,
            held: false,
            slot_since_ns: 0,
        })
    }

    fn mode(&self) -> Mode {
        Mode::Enforce
    }

    fn mode_of(&self, _: Reason) -> Mode {
        Mode::Enforce
    }

    fn lease_is_valid(&self) -> bool {
        true
    }
}

//! What an entry of TERMINATED describes: an orphan IP, or an IP of which a packet was seen.

use epguard_common::{Addr, Mode, Terminated, Uid};
use epguard_core::state::OrphanIp;
use std::time::Duration;

/// A packet from an IP that was taken for an orphan IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lift {
    /// The IP.
    pub ip: Addr,
    /// The pod that had it last.
    pub dead: Uid,
    /// When the packet was seen, `CLOCK_BOOTTIME`.
    pub at: Duration,
}

/// The orphan IP that an entry describes.
pub(super) fn orphan_ip(entry: &Terminated) -> OrphanIp {
    let Terminated {
        dead_uid: dead,
        range,
        mode,
        ..
    } = *entry;
    OrphanIp {
        dead,
        mode: Mode::from_raw(mode),
        range,
        lifted: lifted_at(entry),
    }
}

/// When a packet from the IP was seen, if one was.
pub(super) fn lifted_at(entry: &Terminated) -> Option<Duration> {
    (entry.lifted_ns != 0).then(|| Duration::from_nanos(entry.lifted_ns))
}

/// The lift that an entry records, if one does.
pub(super) fn lift_in(ip: Addr, entry: &Terminated) -> Option<Lift> {
    lifted_at(entry).map(|at| Lift {
        ip,
        dead: entry.dead_uid,
        at,
    })
}

//! Intent of packets that processes on the node send: no From hook sees them before DNAT.
//!
//! A TCP socket has one destination. A UDP socket has the one it is connected to, and another one for each
//! `sendto`. What the socket was told last is believed for a datagram only if it must be that datagram: in the
//! same thread, just after the call, with none of its predecessors still on the way (they wait where a neighbour
//! is being resolved). In doubt there is no intent, and the datagram passes.

use crate::{Slot, SocketIntent};

/// From the system call to the device takes microseconds; a datagram that waits longer is not recognised.
pub const SEND_WINDOW_NS: u64 = 200_000;

/// A datagram that was not seen leaving in this time never will: it was dropped, or left by an unhooked device.
pub const PENDING_NS: u64 = 5_000_000_000;

/// Where and when a datagram is handed in or leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// `CLOCK_BOOTTIME`.
    pub now_ns: u64,
    /// The thread on whose behalf the kernel runs.
    pub tid: u32,
}

impl SocketIntent {
    /// `connect` was called.
    #[inline]
    #[must_use]
    pub const fn connected(slot: Slot) -> Self {
        Self {
            connected: slot,
            sent_ns: 0,
            sent_tid: 0,
            sent: Slot::NONE,
            pending: 0,
            reserved: [0; 3],
        }
    }

    /// `sendto` was called with an address aimed at `slot`.
    ///
    /// A connected socket that also sends elsewhere loses the intent of its connection: a datagram of either
    /// kind could be taken for one of the other.
    #[inline]
    pub fn send(&mut self, slot: Slot, at: Moment) {
        if at.now_ns.saturating_sub(self.sent_ns) > PENDING_NS {
            self.pending = 0;
        }
        self.sent = if self.pending == 0 { slot } else { Slot::NONE };
        if self.connected != slot {
            self.connected = Slot::NONE;
        }
        self.pending = self.pending.saturating_add(1);
        self.sent_ns = at.now_ns;
        self.sent_tid = at.tid;
    }

    /// A datagram leaves. The Service that it is aimed at.
    #[inline]
    pub fn leave(&mut self, at: Moment) -> Slot {
        if self.pending == 0 {
            return self.connected;
        }
        let is_the_last = self.pending == 1
            && self.sent_tid == at.tid
            && at.now_ns.saturating_sub(self.sent_ns) <= SEND_WINDOW_NS;
        self.pending -= 1;
        if is_the_last { self.sent } else { Slot::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIP: Slot = Slot { number: 0x8001 };
    const DIRECT: Slot = Slot::NONE;
    const SEND: Moment = Moment {
        now_ns: PENDING_NS * 2,
        tid: 7,
    };
    const SOON: Moment = Moment {
        now_ns: SEND.now_ns + 5_000,
        tid: 7,
    };

    #[test]
    fn a_connected_socket_keeps_its_service() {
        let mut socket = SocketIntent::connected(VIP);
        assert_eq!(socket.leave(SOON), VIP);
        assert_eq!(socket.leave(SOON), VIP);
    }

    #[test]
    fn datagrams_to_a_vip_and_direct_ones_interleave_without_confusion() {
        let mut socket = SocketIntent::default();
        for slot in [VIP, DIRECT, VIP, VIP, DIRECT] {
            socket.send(slot, SEND);
            assert_eq!(socket.leave(SOON), slot);
        }
    }

    #[test]
    fn a_direct_datagram_that_waited_for_a_neighbour_does_not_inherit_the_next_ones_service() {
        let mut socket = SocketIntent::default();
        socket.send(DIRECT, SEND);
        socket.send(VIP, SEND);
        assert_eq!(socket.leave(SOON), DIRECT);
        assert_eq!(
            socket.leave(SOON),
            DIRECT,
            "in doubt the one to the VIP passes as well"
        );
        socket.send(VIP, SEND);
        assert_eq!(
            socket.leave(SOON),
            VIP,
            "and once both are gone there is no doubt any more"
        );
    }

    #[test]
    fn a_datagram_that_waited_or_belongs_to_another_thread_has_no_intent() {
        let mut socket = SocketIntent::default();
        socket.send(VIP, SEND);
        assert_eq!(
            socket.leave(Moment {
                now_ns: SEND.now_ns + SEND_WINDOW_NS + 1,
                tid: 7
            }),
            Slot::NONE
        );
        socket.send(VIP, SEND);
        assert_eq!(socket.leave(Moment { tid: 8, ..SOON }), Slot::NONE);
    }

    #[test]
    fn a_connected_socket_that_also_sends_elsewhere_loses_its_intent() {
        let mut socket = SocketIntent::connected(VIP);
        socket.send(DIRECT, SEND);
        assert_eq!(socket.leave(SOON), DIRECT);
        assert_eq!(socket.leave(SOON), DIRECT);
    }

    #[test]
    fn a_datagram_lost_on_the_way_is_forgotten_after_a_while() {
        let mut socket = SocketIntent::default();
        socket.send(VIP, SEND);
        let later = Moment {
            now_ns: SEND.now_ns + PENDING_NS + 1,
            tid: 7,
        };
        socket.send(VIP, later);
        assert_eq!(socket.leave(later), VIP);
    }
}

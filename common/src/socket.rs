//! Intent of packets that processes on the node send: no ingress hook sees them before DNAT.
//!
//! A TCP socket has one destination, and so has a UDP socket that is connected. An unconnected one has another for
//! each `sendto`. The last destination counts for a datagram only if the datagram must be that one: in
//! the same thread, just after the call, after all earlier datagrams have left (they wait while a neighbour is being
//! resolved). In doubt there is no intent, and the datagram passes.

use crate::{Intent, Slot, SocketIntent};

/// The longest time from the system call to the device. It usually takes microseconds; a later datagram has no intent.
pub const SEND_WINDOW_NS: u64 = 200_000;

/// The longest time that a datagram waits. A later one was dropped, or left by an unhooked device.
pub const PENDING_NS: u64 = 5_000_000_000;

/// When and in which thread a datagram is sent or leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// `CLOCK_BOOTTIME`.
    pub now_ns: u64,
    /// Since when sockets are followed without a pause, [`crate::View::since_ns`].
    pub since_ns: u64,
    /// The thread on whose behalf the kernel runs.
    pub thread: u32,
}

impl SocketIntent {
    /// A new socket.
    #[inline]
    #[must_use]
    pub const fn created(now_ns: u64) -> Self {
        Self::connected(Slot::NONE, true, now_ns)
    }

    /// `connect` was called on a socket that may have sent before, unless it is `fresh`: datagrams to others
    /// that still wait must not count as the new peer's.
    #[inline]
    #[must_use]
    pub const fn connected(slot: Slot, fresh: bool, now_ns: u64) -> Self {
        Self {
            made_ns: now_ns,
            sent_ns: 0,
            handed: 0,
            left: 0,
            thread: 0,
            sent: Slot::NONE,
            connected: slot,
            shared: 0,
            fresh: if fresh { 1 } else { 0 },
            reserved: [0; 2],
        }
    }

    /// An unconnected socket of a thread, which may have sent before.
    #[inline]
    #[must_use]
    pub const fn unconnected(at: Moment) -> Self {
        Self {
            thread: at.thread,
            ..Self::connected(Slot::NONE, false, at.now_ns)
        }
    }

    /// `sendto` was called on an unconnected socket with an address aimed at `slot`.
    ///
    /// Threads that send at once cannot be distinguished without locking: a socket of two threads loses its intent.
    #[inline]
    pub fn send(&mut self, slot: Slot, at: Moment) {
        if self.thread == 0 {
            self.thread = at.thread;
        }
        if self.thread != at.thread {
            self.shared = 1;
            return;
        }
        let all_left = self.handed == self.left;
        if !all_left && at.now_ns.saturating_sub(self.sent_ns) > PENDING_NS {
            self.left = self.handed;
        }
        self.handed = self.handed.wrapping_add(1);
        self.sent = if all_left { slot } else { Slot::NONE };
        self.sent_ns = at.now_ns;
    }

    /// Counts a datagram that leaves, and returns the Service that it is aimed at. If two CPUs race, one datagram is not
    /// counted, and the socket has no intent until the counts agree again.
    #[inline]
    pub fn leave(&mut self, at: Moment) -> Intent {
        let settled = self.fresh != 0 || at.now_ns >= self.made_ns + PENDING_NS;
        let known = settled && self.is_followed(at.since_ns) && self.shared == 0;
        if self.handed == 0 {
            return if known {
                self.peer(at.since_ns)
            } else {
                Intent::NONE
            };
        }
        self.left = self.left.wrapping_add(1);
        let just_now = at.now_ns.saturating_sub(self.sent_ns) <= SEND_WINDOW_NS;
        if known && self.left == self.handed && self.thread == at.thread && just_now {
            Intent {
                slot: self.sent,
                noted_ns: self.sent_ns,
            }
        } else {
            Intent::NONE
        }
    }
}

impl SocketIntent {
    /// The Service that the socket was connected to, and when.
    #[inline]
    #[must_use]
    pub const fn peer(&self, since_ns: u64) -> Intent {
        if !self.is_followed(since_ns) {
            return Intent::NONE;
        }
        Intent {
            slot: self.connected,
            noted_ns: self.made_ns,
        }
    }

    /// Whether the hooks have seen all that the socket did since the entry was made. An older entry never counts.
    #[inline]
    #[must_use]
    pub const fn is_followed(&self, since_ns: u64) -> bool {
        self.made_ns >= since_ns
    }

    /// Whether the socket has never sent anything, nor was connected.
    #[inline]
    #[must_use]
    pub const fn is_unused(&self, since_ns: u64) -> bool {
        self.fresh != 0 && self.handed == 0 && !self.connected.is_some() && self.is_followed(since_ns)
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;

//! Sockets of the node that connected to a Service before it had a denial. The hooks saw them connect, but had no
//! slot to write. Pure.
//!
//! A socket may connect elsewhere between the kernel's list and the write. So an entry needs two lists. First comes
//! an entry without a slot, by which the hooks know the socket from then on; then comes a second list. A TCP socket
//! that has the same peer there has not connected anew: that would have ended its connection first, and the hooks
//! would see the next one. A UDP socket keeps its peer while it connects anew: its second list is that of the next
//! lookup.

use crate::node::sock_diag::Connected;
use epguard_common::{Slot, Vip, capacity};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many addresses of Services one lookup asks for: the rest wait for the next lookup.
const MOST_VIPS: usize = 1_024;

/// How many sockets one lookup enters. A full SOCKETS evicts its coldest entries.
pub const MOST_SOCKETS: usize = capacity::SOCKETS / 2;

/// Time between the two lookups. A system call that was in progress at the first one has ended by then.
const PAUSE: Duration = Duration::from_secs(1);

const UDP: u8 = 17;

/// The addresses that were looked up, and the sockets found.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Since when sockets are followed without a gap, in nanoseconds. Entries from before are void.
    since_ns: u64,
    looked: BTreeMap<Vip, Look>,
    /// UDP sockets that wait for the second lookup.
    waiting: BTreeMap<u64, Vip>,
    /// Sockets that were entered.
    pub entered: u64,
    /// Sockets beyond the limit of one lookup.
    pub left_out: u64,
}

#[derive(Debug)]
struct Look {
    slot: Slot,
    /// When to look the address up again; none if that is done.
    again: Option<Duration>,
}

/// Changes to SOCKETS for the sockets that two lists show.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Sockets, and the Services that they are connected to.
    pub enter: Vec<(Connected, Slot)>,
    /// Sockets that are not connected to that Service any more.
    pub forget: Vec<u64>,
}

impl Earlier {
    /// The addresses to look up: new ones in SERVICES, and each a second time a moment later. `now` is
    /// `CLOCK_BOOTTIME`.
    pub fn due(&mut self, services: &BTreeMap<Vip, Slot>, since_ns: u64, now: Duration) -> Vec<Vip> {
        if self.since_ns != since_ns {
            self.since_ns = since_ns;
            self.looked.clear();
            self.waiting.clear();
        }
        self.forget_gone(services);
        let is_due = |vip: &Vip| match self.looked.get(vip) {
            None => true,
            Some(look) => look.again.is_some_and(|again| again <= now),
        };
        services
            .keys()
            .filter(|vip| is_due(vip))
            .take(MOST_VIPS)
            .copied()
            .collect()
    }

    /// Forgets addresses that are not in SERVICES any more, or with another slot: they are looked up anew if they come back.
    pub fn forget_gone(&mut self, services: &BTreeMap<Vip, Slot>) {
        self.looked
            .retain(|vip, look| services.get(vip) == Some(&look.slot));
    }

    /// The sockets of a first list that may be entered: in a followed cgroup, and at most [`MOST_SOCKETS`].
    pub fn admit(&mut self, mut found: Vec<Connected>, followed: &BTreeSet<u64>) -> Vec<Connected> {
        found.retain(|socket| socket.cgroup.is_some_and(|cgroup| followed.contains(&cgroup)));
        let too_many = found.len().saturating_sub(MOST_SOCKETS);
        self.left_out += u64::try_from(too_many).unwrap_or(u64::MAX);
        found.truncate(MOST_SOCKETS);
        found
    }

    /// Compares the two lists of one lookup: which sockets to enter, and which to drop.
    pub fn compare(
        &mut self,
        first: &[Connected],
        second: &[Connected],
        services: &BTreeMap<Vip, Slot>,
    ) -> Steps {
        let second: BTreeSet<(u64, Vip)> = second.iter().map(|socket| (socket.cookie, socket.peer)).collect();
        let mut steps = Steps::default();
        for socket in first {
            let waited = self.waiting.remove(&socket.cookie);
            let stayed = second.contains(&(socket.cookie, socket.peer));
            let Some(slot) = services.get(&socket.peer).filter(|_| stayed) else {
                steps.forget.push(socket.cookie);
                continue;
            };
            if socket.peer.protocol == UDP && waited != Some(socket.peer) {
                self.waiting.insert(socket.cookie, socket.peer);
            } else {
                steps.enter.push((*socket, *slot));
            }
        }
        self.entered += u64::try_from(steps.enter.len()).unwrap_or(u64::MAX);
        steps
    }

    /// Ends a lookup of these addresses, with the slots that they had when it began. One that has another slot now is due anew.
    pub fn done(&mut self, vips: &BTreeMap<Vip, Slot>, now: Duration) {
        for (vip, slot) in vips {
            if let Some(look) = self.looked.get_mut(vip) {
                look.again = None;
            } else {
                let again = Some(now + PAUSE);
                self.looked.insert(*vip, Look { slot: *slot, again });
            }
        }
        let looks_again = |vip: &Vip| self.looked.get(vip).is_some_and(|look| look.again.is_some());
        self.waiting.retain(|_, vip| looks_again(vip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::Addr;

    const SLOT: Slot = Slot { number: 0x8020 };
    const OTHER: Slot = Slot { number: 0x8040 };
    const TCP: u8 = 6;

    fn vip(protocol: u8) -> Vip {
        Vip {
            addr: Addr::v4([10, 96, 0, 1]),
            port: 80,
            protocol,
            reserved: 0,
        }
    }

    fn services(slot: Slot) -> BTreeMap<Vip, Slot> {
        [(vip(TCP), slot), (vip(UDP), slot)].into()
    }

    fn socket(cookie: u64, protocol: u8) -> Connected {
        Connected {
            cookie,
            peer: vip(protocol),
            cgroup: Some(1),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn sockets_of_a_service_are_listed_twice_and_again_after_a_new_slot_or_a_new_start() {
        let mut earlier = Earlier::default();
        let all = [vip(TCP), vip(UDP)];
        let mut look = |slot, since_ns, now: u64| {
            let due = earlier.due(&services(slot), since_ns, seconds(now));
            let begun = due.iter().map(|vip| (*vip, slot)).collect();
            earlier.done(&begun, seconds(now));
            due
        };
        assert_eq!(look(SLOT, 1, 10), all);
        assert_eq!(look(SLOT, 1, 10), []);
        assert_eq!(look(SLOT, 1, 11), all);
        assert_eq!(look(SLOT, 1, 99), []);
        assert_eq!(look(OTHER, 1, 99), all);
        assert_eq!(look(OTHER, 2, 99), all);
    }

    #[test]
    fn an_address_whose_slot_changes_during_its_lookup_is_looked_up_anew() {
        let mut earlier = Earlier::default();
        let due = |earlier: &mut Earlier| earlier.due(&services(OTHER), 1, seconds(10));
        assert_eq!(due(&mut earlier).len(), 2);
        earlier.done(&services(SLOT), seconds(10));
        assert_eq!(due(&mut earlier).len(), 2);
        earlier.done(&services(OTHER), seconds(10));
        assert_eq!(due(&mut earlier).len(), 0);
        earlier.forget_gone(&BTreeMap::new());
        assert_eq!(due(&mut earlier).len(), 2, "they were gone for a moment");
    }

    #[test]
    fn a_tcp_socket_needs_two_lists_and_a_udp_socket_two_rounds() {
        let mut earlier = Earlier::default();
        let both = [socket(1, TCP), socket(2, UDP)];
        let mut look = |first: &[Connected], second: &[Connected], now| {
            earlier.due(&services(SLOT), 1, seconds(now));
            let steps = earlier.compare(first, second, &services(SLOT));
            earlier.done(&services(SLOT), seconds(now));
            steps
        };
        let entered = |steps: &Steps| {
            steps
                .enter
                .iter()
                .map(|(socket, _)| socket.cookie)
                .collect::<Vec<_>>()
        };
        let steps = look(&both, &both, 10);
        assert_eq!((entered(&steps), steps.forget), (vec![1], vec![]));
        let steps = look(&both, &both, 11);
        assert_eq!((entered(&steps), steps.forget), (vec![1, 2], vec![]));
    }

    #[test]
    fn a_socket_that_connects_elsewhere_between_the_lists_is_dropped() {
        let mut earlier = Earlier::default();
        let elsewhere = Connected {
            peer: Vip { port: 81, ..vip(TCP) },
            ..socket(1, TCP)
        };
        let steps = earlier.compare(&[socket(1, TCP), socket(2, TCP)], &[elsewhere], &services(SLOT));
        let expected = Steps {
            enter: vec![],
            forget: vec![1, 2],
        };
        assert_eq!((steps, earlier.entered), (expected, 0));
    }

    #[test]
    fn a_socket_of_a_cgroup_that_is_not_followed_is_left_alone() {
        let mut earlier = Earlier::default();
        let unknown = Connected {
            cgroup: None,
            ..socket(3, TCP)
        };
        let foreign = Connected {
            cgroup: Some(2),
            ..socket(4, TCP)
        };
        let admitted = earlier.admit(vec![socket(1, TCP), unknown, foreign], &[1].into());
        assert_eq!(admitted, [socket(1, TCP)]);
    }

    #[test]
    fn sockets_beyond_the_limit_of_one_round_are_counted() {
        let mut earlier = Earlier::default();
        let found = (0..5_000).map(|cookie| socket(cookie, TCP)).collect();
        assert_eq!(earlier.admit(found, &[1].into()).len(), MOST_SOCKETS);
        assert_eq!(earlier.left_out, 904);
    }
}

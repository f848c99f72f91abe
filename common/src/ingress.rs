//! What becomes of a packet at the ingress hook, before DNAT.

use crate::{Mode, Packet, View};

/// Whether epguard may act on packets now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Force {
    /// The operator's mode is off.
    Off,
    /// The agent has not renewed the lease in time.
    Lapsed,
    /// A mode is on, and the lease is valid.
    On,
}

impl Force {
    /// What is in force. `now_ns` reads `CLOCK_BOOTTIME`.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as parse")]
    pub fn of(mode: Mode, view: &View, now_ns: impl FnOnce() -> u64) -> Self {
        if mode == Mode::Off {
            Self::Off
        } else if view.lease_is_valid(now_ns()) {
            Self::On
        } else {
            Self::Lapsed
        }
    }
}

/// What the choice looks up at the ingress hook, in this order.
pub trait IngressModel {
    /// Whether the packet carries the mark of epguard's own answers.
    fn is_marked(&self) -> bool;
    /// Whether the packet is aimed at an affected Service or at an IP in TERMINATED. No answer goes there: the sender has
    /// guessed the mark.
    fn is_aimed(&self, packet: &Packet) -> bool;
    /// Whether the packet is a reply of a live endpoint in a redirected flow.
    fn is_reply(&self, packet: &Packet) -> bool;
    /// What is in force.
    fn force(&self) -> Force;
}

/// What the ingress hook does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entering {
    /// Pass one of epguard's own answers, with its mark: the egress hook needs the mark too.
    OwnAnswer,
    /// Send a reply of a redirected flow back to the client.
    Reply,
    /// Write the Service that the packet is aimed at, and judge the packet by its destination.
    Judge,
}

/// Chooses what the ingress hook does. `None`: a frame without an IP packet.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as judge")]
pub fn decide_ingress<M: IngressModel>(packet: Option<&Packet>, model: &M) -> Entering {
    if model.is_marked() && !packet.is_some_and(|packet| model.is_aimed(packet)) {
        return Entering::OwnAnswer;
    }
    if packet.is_some_and(|packet| model.is_reply(packet)) && model.force() == Force::On {
        return Entering::Reply;
    }
    Entering::Judge
}

/// What the ingress hook does about a packet that is aimed at an affected Service, once it has tried to write the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// The packet carries the number as far as the egress hook; or the mode is off.
    Done,
    /// Write the sender to AIMED. The egress hook counts why the number is missing, if the packet goes to a denied endpoint.
    RememberSender,
    /// Count the packet as `not-carried`, and clear the field.
    NotCarried,
}

impl Marking {
    /// `carried`: whether the packet carries the number now. `may_be_wiped`: see [`View::wipers`].
    #[inline(always)]
    #[must_use]
    #[allow(clippy::inline_always, reason = "as judge")]
    pub fn of(carried: bool, may_be_wiped: bool, force: impl FnOnce() -> Force) -> Self {
        if carried && !may_be_wiped {
            return Self::Done;
        }
        match force() {
            Force::Off => Self::Done,
            Force::Lapsed => Self::RememberSender,
            Force::On if carried => Self::RememberSender,
            Force::On => Self::NotCarried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Addr, Transport};

    #[derive(Clone, Copy)]
    struct Entered {
        marked: bool,
        aimed: bool,
        reply: bool,
        force: Force,
    }

    impl IngressModel for Entered {
        fn is_marked(&self) -> bool {
            self.marked
        }
        fn is_aimed(&self, _: &Packet) -> bool {
            self.aimed
        }
        fn is_reply(&self, _: &Packet) -> bool {
            self.reply
        }
        fn force(&self) -> Force {
            self.force
        }
    }

    const PACKET: Packet = Packet {
        src: Addr::v4([10, 244, 2, 2]),
        dst: Addr::v4([10, 96, 0, 7]),
        src_port: 40_000,
        dst_port: 80,
        protocol: 6,
        transport: Transport::Opening,
        network_at: 0,
        transport_at: 20,
    };

    #[test]
    fn own_answers_pass_replies_return_and_a_guessed_mark_has_no_effect() {
        let plain = Entered {
            marked: false,
            aimed: false,
            reply: false,
            force: Force::On,
        };
        let marked = Entered {
            marked: true,
            ..plain
        };
        let reply = Entered { reply: true, ..plain };
        let table = [
            (plain, Entering::Judge),
            (marked, Entering::OwnAnswer),
            (
                Entered {
                    aimed: true,
                    ..marked
                },
                Entering::Judge,
            ),
            (
                Entered {
                    reply: true,
                    ..marked
                },
                Entering::OwnAnswer,
            ),
            (reply, Entering::Reply),
            (
                Entered {
                    force: Force::Lapsed,
                    ..reply
                },
                Entering::Judge,
            ),
            (
                Entered {
                    force: Force::Off,
                    ..reply
                },
                Entering::Judge,
            ),
        ];
        for (number, (entered, expected)) in table.into_iter().enumerate() {
            assert_eq!(decide_ingress(Some(&PACKET), &entered), expected, "row {number}");
        }
        assert_eq!(decide_ingress(None, &marked), Entering::OwnAnswer);
        assert_eq!(decide_ingress(None, &reply), Entering::Judge);
    }

    #[test]
    fn a_number_that_is_missing_at_the_egress_hook_is_counted_at_one_hook_only() {
        let table = [
            (true, false, Force::On, Marking::Done),
            (true, true, Force::On, Marking::RememberSender),
            (false, false, Force::On, Marking::NotCarried),
            (false, true, Force::On, Marking::NotCarried),
            (false, false, Force::Lapsed, Marking::RememberSender),
            (false, true, Force::Lapsed, Marking::RememberSender),
            (false, false, Force::Off, Marking::Done),
            (true, true, Force::Off, Marking::Done),
        ];
        for (carried, wiped, force, expected) in table {
            let marking = Marking::of(carried, wiped, || force);
            assert_eq!(marking, expected, "{carried} {wiped} {force:?}");
        }
    }

    #[test]
    fn a_lease_is_in_force_up_to_its_deadline() {
        let view = View {
            lease_deadline_ns: 7,
            ..View::default()
        };
        assert_eq!(Force::of(Mode::Enforce, &view, || 7), Force::On);
        assert_eq!(Force::of(Mode::Observe, &view, || 8), Force::Lapsed);
        assert_eq!(Force::of(Mode::Off, &view, || 7), Force::Off);
    }
}

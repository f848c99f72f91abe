//! Datagrams of one socket, and what each is taken for.

use super::*;

const VIP: Slot = Slot { number: 0x8001 };
const DIRECT: Slot = Slot::NONE;
const SEND: Moment = Moment {
    now_ns: PENDING_NS * 2,
    since_ns: 0,
    thread: 7,
};
const SOON: Moment = Moment {
    now_ns: SEND.now_ns + 5_000,
    since_ns: 0,
    thread: 7,
};

/// A socket that has been followed for long enough.
fn known() -> SocketIntent {
    SocketIntent::unconnected(Moment {
        now_ns: SEND.now_ns - PENDING_NS,
        ..SEND
    })
}

fn leaves(socket: &mut SocketIntent, at: Moment) -> Slot {
    socket.leave(at).slot
}

#[test]
fn an_intent_has_the_time_of_the_call_that_set_it() {
    let mut socket = SocketIntent::connected(VIP, true, 7);
    assert_eq!(socket.leave(SOON).noted_ns, 7);
    assert_eq!(socket.peer(8), Intent::NONE);
    let mut socket = known();
    socket.send(VIP, SEND);
    assert_eq!(socket.leave(SOON).noted_ns, SEND.now_ns);
}

#[test]
fn a_connected_socket_keeps_its_service() {
    let mut socket = SocketIntent::connected(VIP, true, SEND.now_ns);
    assert_eq!(leaves(&mut socket, SOON), VIP);
    assert_eq!(leaves(&mut socket, SOON), VIP);
}

#[test]
fn datagrams_from_before_the_connect_get_no_intent_of_the_peer() {
    let mut socket = SocketIntent::connected(VIP, false, SEND.now_ns);
    assert_eq!(leaves(&mut socket, SOON), DIRECT);
    let later = SEND.now_ns + PENDING_NS;
    assert_eq!(
        leaves(
            &mut socket,
            Moment {
                now_ns: later,
                ..SEND
            }
        ),
        VIP
    );
}

#[test]
fn datagrams_from_before_the_following_get_no_intent_of_a_later_one() {
    let mut socket = SocketIntent::unconnected(SEND);
    socket.send(VIP, SEND);
    assert_eq!(
        leaves(&mut socket, SOON),
        DIRECT,
        "it may be an earlier one that waited"
    );
}

#[test]
fn datagrams_to_a_vip_and_direct_ones_interleave_without_confusion() {
    let mut socket = known();
    for slot in [VIP, DIRECT, VIP, VIP, DIRECT] {
        socket.send(slot, SEND);
        assert_eq!(leaves(&mut socket, SOON), slot);
    }
}

#[test]
fn a_direct_datagram_that_waited_for_a_neighbour_gets_no_intent_of_the_next_one() {
    let mut socket = known();
    socket.send(DIRECT, SEND);
    socket.send(VIP, SEND);
    assert_eq!(leaves(&mut socket, SOON), DIRECT);
    assert_eq!(
        leaves(&mut socket, SOON),
        DIRECT,
        "in doubt the one to the VIP passes as well"
    );
    socket.send(VIP, SEND);
    assert_eq!(
        leaves(&mut socket, SOON),
        VIP,
        "and once both are gone there is no doubt any more"
    );
}

#[test]
fn a_datagram_that_waited_or_belongs_to_another_thread_has_no_intent() {
    let mut socket = known();
    socket.send(VIP, SEND);
    let late = SEND.now_ns + SEND_WINDOW_NS + 1;
    assert_eq!(leaves(&mut socket, Moment { now_ns: late, ..SEND }), Slot::NONE);
    socket.send(VIP, SEND);
    assert_eq!(leaves(&mut socket, Moment { thread: 8, ..SOON }), Slot::NONE);
}

#[test]
fn a_socket_that_two_threads_send_on_is_followed_no_more() {
    let mut socket = known();
    socket.send(VIP, SEND);
    socket.send(DIRECT, Moment { thread: 8, ..SEND });
    assert_eq!(leaves(&mut socket, SOON), DIRECT);
    socket.send(VIP, SEND);
    assert_eq!(leaves(&mut socket, SOON), DIRECT);
}

#[test]
fn a_lost_datagram_expires_after_a_while() {
    let mut socket = known();
    socket.send(VIP, SEND);
    let later = Moment {
        now_ns: SEND.now_ns + PENDING_NS + 1,
        ..SEND
    };
    socket.send(VIP, later);
    assert_eq!(leaves(&mut socket, later), DIRECT);
    socket.send(VIP, later);
    assert_eq!(leaves(&mut socket, later), VIP);
}

#[test]
fn a_socket_followed_since_its_creation_has_intents_at_once() {
    let mut socket = SocketIntent::created(SEND.now_ns);
    assert!(socket.is_unused(0));
    socket.send(VIP, SEND);
    assert!(!socket.is_unused(0));
    assert_eq!(leaves(&mut socket, SOON), VIP);
    socket.send(DIRECT, SEND);
    assert_eq!(leaves(&mut socket, SOON), DIRECT);
}

#[test]
fn notes_from_before_a_pause_are_ignored_after_it() {
    let after = Moment {
        since_ns: SEND.now_ns + 1,
        now_ns: SEND.now_ns + 2,
        ..SEND
    };
    let mut connected = SocketIntent::connected(VIP, true, SEND.now_ns);
    assert!(!connected.is_followed(after.since_ns));
    assert_eq!(
        leaves(&mut connected, after),
        DIRECT,
        "it may be connected elsewhere by now"
    );
    let mut unused = SocketIntent::created(SEND.now_ns);
    unused.send(VIP, after);
    assert_eq!(
        leaves(&mut unused, after),
        DIRECT,
        "it may be an earlier one that waited"
    );
}

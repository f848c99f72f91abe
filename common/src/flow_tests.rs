//! Which flows go on, and for whom there is room.

use super::*;
use crate::Uid;
use crate::testing::{ACK, SYN};

const LIVE: Backend = Backend {
    addr: Addr::v4([10, 244, 1, 2]),
    uid: Uid { octets: [0xbb; 16] },
    port: 9090,
    reserved: 0,
};

#[test]
fn an_answer_is_found_by_the_redirected_packet_and_translated_back() {
    let flow = Flow::to(&SYN);
    let answer = Packet {
        src: LIVE.addr,
        dst: SYN.src,
        src_port: LIVE.port,
        dst_port: SYN.src_port,
        ..SYN
    };
    let back = Return {
        target: SYN.dst,
        target_port: SYN.dst_port,
        ..Return::default()
    };
    assert_eq!(Flow::from(&answer), flow.with_live_endpoint(&LIVE));
    assert_eq!(Flow::from(&answer).with_denied_endpoint(&back), flow);
}

fn flow(flags: u32) -> Redirected {
    Redirected {
        flags,
        ..Redirected::default()
    }
}

#[test]
fn a_closed_or_unproven_flow_expires_sooner() {
    for (flags, protocol, minutes, is_over) in [
        (Redirected::PROVEN, 6, 60, false),
        (Redirected::PROVEN | Redirected::CLIENT_CLOSED, 6, 3, true),
        (Redirected::ANSWERED, 6, 3, true),
        (0, 17, 4, true),
        (0, 17, 2, false),
        (Redirected::PROVEN | Redirected::TAKEN, 6, 3, true),
    ] {
        let row = (flags, protocol, minutes);
        assert_eq!(
            flow(flags).is_over(protocol, minutes * 60_000_000_000),
            is_over,
            "{row:?}"
        );
    }
}

#[test]
fn an_open_proven_flow_keeps_its_place_and_its_packets() {
    let table = [
        (Redirected::PROVEN, 6, false),
        (Redirected::PROVEN | Redirected::CLIENT_CLOSED, 6, false),
        (
            Redirected::PROVEN | Redirected::CLIENT_CLOSED | Redirected::ENDPOINT_CLOSED,
            6,
            true,
        ),
        (Redirected::ANSWERED, 6, true),
        (0, 6, true),
        (0, 17, false),
        (Redirected::TAKEN, 6, false),
        (
            Redirected::TAKEN | Redirected::ENDPOINT_CLOSED | Redirected::CLIENT_CLOSED,
            6,
            false,
        ),
    ];
    for (flags, protocol, expected) in table {
        assert_eq!(
            flow(flags).gives_way(protocol, 1),
            expected,
            "{flags} {protocol}"
        );
    }
    assert!(
        flow(0).gives_way(17, 200_000_000_000),
        "a UDP flow is over after 180 s"
    );
    assert!(flow(0).is_for(&SYN) && flow(0).is_for(&ACK));
    assert!(flow(Redirected::CLIENT_CLOSED).is_for(&ACK));
    assert!(!flow(Redirected::CLIENT_CLOSED).is_for(&SYN));
}

#[test]
fn only_the_number_of_the_syn_ack_proves_a_handshake_and_only_both_sides_close_a_flow() {
    let answered = Redirected {
        flags: Redirected::ANSWERED,
        proof: 7,
        ..Redirected::default()
    };
    assert!(answered.is_proven_by(7) && !answered.is_proven_by(8));
    assert!(
        !Redirected::default().is_proven_by(0),
        "nobody answered yet"
    );
    assert!(!Redirected::is_closed(
        Redirected::CLIENT_CLOSED | Redirected::PROVEN
    ));
    assert!(!Redirected::is_closed(Redirected::ENDPOINT_CLOSED));
    assert!(Redirected::is_closed(
        Redirected::CLIENT_CLOSED | Redirected::ENDPOINT_CLOSED
    ));
}

#[test]
fn an_endpoint_that_answers_a_syn_with_an_ack_has_another_connection_of_the_client() {
    let (syn_ack, rst, ack, fin) = (0x12, 0x14, 0x10, 0x11);
    let foreign = [syn_ack, rst, ack, fin].map(|tcp| flow(0).is_foreign(6, tcp));
    assert_eq!(foreign, [false, false, true, true]);
    assert!(!flow(Redirected::ANSWERED).is_foreign(6, ack) && !flow(0).is_foreign(17, 0));
}

#[test]
fn a_client_gets_room_up_to_its_share_and_to_the_number_of_free_flows() {
    use crate::capacity::{FLOWS, FLOWS_PER_CLIENT};
    let all = u32::try_from(FLOWS).unwrap_or_default();
    assert!(has_room(0, 0) && has_room(FLOWS_PER_CLIENT - 1, FLOWS_PER_CLIENT - 1));
    assert!(!has_room(FLOWS_PER_CLIENT, FLOWS_PER_CLIENT));
    assert!(has_room(99, all - 100) && !has_room(100, all - 100));
    assert!(has_room(0, all - 1) && !has_room(0, all));
    assert!(!has_room(0, u32::MAX));
}

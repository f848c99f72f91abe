//! Packets by hand, their answers octet for octet, and checksums by another way than the code's.

extern crate std;
use super::testing::*;
use super::*;
use crate::parse;
use std::vec;
use std::vec::Vec;

fn families() -> [(bool, Vec<u8>); 4] {
    let options = vec![1, 1, 1, 1, 0x94, 4, 0, 0];
    [
        (false, vec![]),
        (false, options),
        (true, vec![]),
        (true, extension(TCP).to_vec()),
    ]
}

#[test]
fn a_connection_is_reset_with_the_numbers_that_the_client_waits_for() {
    for (v6, options) in families() {
        for (name, segment, numbers) in [
            (
                "a SYN",
                tcp(u32::MAX, 5, SYN, &[]),
                [0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x14, 0, 0],
            ),
            (
                "a SYN with data",
                tcp(u32::MAX, 5, SYN, &[7; 99]),
                [0, 0, 0, 0, 0, 0, 0, 99, 0x50, 0x14, 0, 0],
            ),
            (
                "an established one",
                tcp(77, 0xdead_beef, PSH_ACK, &[1; 1400]),
                [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0x50, RST, 0, 0],
            ),
        ] {
            let frame = answer_of(&ip(v6, &options, TCP, &segment), None);
            let (protocol, body) = opened(&frame.octets);
            assert_eq!((protocol, body.len()), (TCP, 20), "{name}");
            assert_eq!(
                (&body[..4], &body[4..16]),
                (&[0x1f, 0x90, 0x9c, 0x40][..], &numbers[..]),
                "{name}"
            );
            assert_eq!(covered(&frame.octets, TCP, body), 0xffff, "{name}");
        }
    }
}

#[test]
fn an_offloaded_checksum_is_correct_once_the_device_completes_it() {
    for (v6, options) in families() {
        let start = if v6 { 40 } else { 20 } + options.len();
        let segment = ip(v6, &options, TCP, &tcp(77, 0, SYN, &[]));
        let mut frame = answer_of(&segment, Some((start, 16)));
        frame.complete();
        let (_, body) = opened(&frame.octets);
        assert_eq!(covered(&frame.octets, TCP, body), 0xffff);

        let options = if v6 && start > 40 {
            extension(UDP).to_vec()
        } else {
            options
        };
        let datagram = ip(v6, &options, UDP, &udp(b"a question"));
        let mut frame = answer_of(&datagram, Some((start, 6)));
        let complete = |frame: &Frame| match opened(&frame.octets) {
            (1, body) => sum_of(body),
            (protocol, body) => covered(&frame.octets, protocol, body),
        };
        assert_eq!(complete(&frame), 0xffff, "as it is");
        frame.complete();
        assert_eq!(complete(&frame), 0xffff, "completed");
    }
}

#[test]
fn nat_keeps_the_checksum_of_an_icmp_error_correct() {
    let datagram = ip(false, &[], UDP, &udp(b"a question"));
    let mut frame = answer_of(&datagram, Some((20, 6)));
    let quoted_destination = 20 + 8 + 16;
    frame.octets[quoted_destination..quoted_destination + 4].copy_from_slice(&[10, 96, 0, 1]);
    frame.complete();
    assert_eq!(sum_of(opened(&frame.octets).1), 0xffff);
}

#[test]
fn a_datagram_gets_port_unreachable_with_the_datagram_and_its_options_quoted_and_none_repeated() {
    let extended = (true, extension(UDP).to_vec());
    let v4 = [0, 4, 40].map(|octets| (false, vec![1; octets]));
    for (v6, options) in v4.into_iter().chain([(true, vec![]), extended]) {
        for (size, quoted) in [(0, 0), (1, 0), (4, 4), (63, 60), (1400, 1400)] {
            let datagram = ip(v6, &options, UDP, &udp(&vec![0x5a; size]));
            let frame = answer_of(&datagram, None);
            let (protocol, body) = opened(&frame.octets);
            let header = if v6 { 40 } else { 20 } + options.len();
            let quote = (header + 8 + quoted).min(MAX_QUOTE as usize);
            assert_eq!(body[8..], datagram[..quote]);
            assert_eq!(body[4..8], [0; 4]);
            if v6 {
                assert_eq!((protocol, &body[..2]), (58, &[1, 4][..]));
                assert_eq!(covered(&frame.octets, 58, body), 0xffff);
            } else {
                assert_eq!((protocol, &body[..2]), (1, &[3, 3][..]));
                assert_eq!(sum_of(body), 0xffff);
            }
        }
    }
}

#[test]
fn a_client_whose_packets_are_translated_gets_a_reset_from_the_address_that_it_called() {
    for (v6, options) in families() {
        let meant = translated(v6);
        let segment = ip(v6, &options, TCP, &tcp(77, 5, SYN, &[]));
        let start = if v6 { 40 } else { 20 } + options.len();
        for partial in [None, Some((start, 16))] {
            let mut frame = answer_to(&segment, partial, &meant);
            if partial.is_some() {
                frame.complete();
            }
            let (protocol, body) = opened_by(&frame.octets, &meant);
            assert_eq!((protocol, &body[..4]), (TCP, &[1, 0xbb, 0xc3, 0x51][..]));
            assert_eq!(covered(&frame.octets, TCP, body), 0xffff);
        }
    }
}

#[test]
fn the_quote_has_the_addresses_and_ports_that_the_client_wrote() {
    let extended = (true, extension(UDP).to_vec());
    for (v6, options) in [
        (false, vec![]),
        (false, vec![1; 8]),
        (true, vec![]),
        extended,
    ] {
        let meant = translated(v6);
        // As the client sent it.
        let mut datagram = ip(v6, &options, UDP, &udp(&[0x5a; 200]));
        let addresses = if v6 { 8 } else { 12 };
        let ends = [wire(&meant.client), wire(&meant.vip.addr)].concat();
        datagram[addresses..addresses + ends.len()].copy_from_slice(&ends);
        let ports = if v6 { 40 } else { 20 } + options.len();
        datagram[ports..ports + 4].copy_from_slice(&[0xc3, 0x51, 1, 0xbb]);
        if !v6 {
            let header = 20 + options.len();
            datagram[10..12].fill(0);
            let sum = !sum_of(&datagram[..header]);
            datagram[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // As it leaves, with a valid checksum of its header.
        let mut translated = ip(v6, &options, UDP, &udp(&[0x5a; 200]));
        if !v6 {
            let header = 20 + options.len();
            translated[10..12].fill(0);
            let sum = !sum_of(&translated[..header]);
            translated[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let frame = answer_to(&translated, None, &meant);
        let (protocol, body) = opened_by(&frame.octets, &meant);
        assert_eq!(body[8..], datagram[..MAX_QUOTE as usize]);
        let sum = if v6 {
            covered(&frame.octets, protocol, body)
        } else {
            sum_of(body)
        };
        assert_eq!(sum, 0xffff);
    }
}

#[test]
fn an_sctp_init_is_quoted_with_its_tag() {
    let mut init = PORTS.to_vec();
    init.extend([0, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 20]);
    init.extend([9; 16]);
    let packet = ip(false, &[], SCTP, &init);
    let frame = answer_of(&packet, None);
    let (protocol, body) = opened(&frame.octets);
    assert_eq!(
        (protocol, &body[..2], &body[8..]),
        (1, &[3, 3][..], &packet[..])
    );
}

#[test]
fn rst_icmp_and_later_fragments_are_never_rejected() {
    let answerable = |packet: Vec<u8>| {
        let ether_type = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        is_answerable(&packet, &parse(&packet, ether_type).unwrap())
    };
    let sctp = |chunk| [&PORTS[..], &[0, 0, 0, 7, 0, 0, 0, 0, chunk, 0, 0, 4]].concat();
    let from = |src: [u8; 4]| {
        let mut packet = ip(false, &[], UDP, &udp(&[]));
        packet[12..16].copy_from_slice(&src);
        packet
    };
    for (name, packet, answered) in [
        ("SYN", ip(false, &[], TCP, &tcp(0, 0, SYN, &[])), true),
        ("RST", ip(false, &[], TCP, &tcp(0, 0, RST, &[])), false),
        (
            "RST, ACK",
            ip(true, &[], TCP, &tcp(0, 0, RST | 0x10, &[])),
            false,
        ),
        ("UDP", ip(true, &[], UDP, &udp(&[])), true),
        ("SCTP INIT", ip(false, &[], SCTP, &sctp(1)), true),
        ("SCTP ABORT", ip(false, &[], SCTP, &sctp(6)), false),
        (
            "SCTP SHUTDOWN COMPLETE",
            ip(false, &[], SCTP, &sctp(14)),
            false,
        ),
        ("ICMP echo", ip(false, &[], 1, &[8; 8]), false),
        ("ICMP error", ip(false, &[], 1, &[3; 36]), false),
        ("ICMPv6 error", ip(true, &[], 58, &[1; 56]), false),
        ("first fragment", fragmented(0x2000, UDP, &udp(&[])), true),
        ("second fragment", fragmented(0x2001, UDP, &udp(&[])), false),
        ("from nowhere", from([0; 4]), false),
        ("from loopback", from([127, 0, 0, 1]), false),
        ("from multicast", from([224, 0, 0, 5]), false),
        ("from broadcast", from([255; 4]), false),
    ] {
        assert_eq!(answerable(packet), answered, "{name}");
    }
}

#[test]
fn a_packet_whose_headers_leave_no_room_for_a_quote_is_not_answered() {
    let long = [&[UDP, 15, 1, 4][..], &[0; 124]].concat();
    let datagram = ip(true, &long, UDP, &udp(&[]));
    let mut frame = Frame {
        octets: datagram.clone(),
        partial: None,
    };
    let packet = parse(&frame, 0x86dd).unwrap();
    assert_eq!(answer(&mut frame, &packet, &untranslated(true)), None);
    assert_eq!(frame.octets, datagram);
}

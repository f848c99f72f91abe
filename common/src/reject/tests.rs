//! Packets by hand, their answers octet for octet, and checksums by another way than the code's.

extern crate std;
use super::*;
use crate::parse;
use std::vec;
use std::vec::Vec;

const SRC_V4: [u8; 4] = [10, 244, 2, 2];
const DST_V4: [u8; 4] = [10, 244, 1, 10];
const SRC_V6: [u8; 16] = [0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const DST_V6: [u8; 16] = [0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const PORTS: [u8; 4] = [0x9c, 0x40, 0x1f, 0x90];

const SYN: u8 = 2;
const RST: u8 = 4;
const PSH_ACK: u8 = 0x18;

/// A packet from the network header on; `partial`: where a checksum is left to the device, and its offset from there.
struct Frame {
    octets: Vec<u8>,
    partial: Option<(usize, usize)>,
}

impl Bytes for Frame {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.octets.read(offset)
    }

    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.octets.words(offset)
    }
}

impl Rewrite for Frame {
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()> {
        for (word, at) in words.iter().zip((offset as usize..).step_by(4)) {
            self.octets
                .get_mut(at..at + 4)?
                .copy_from_slice(&word.to_ne_bytes());
        }
        Some(())
    }

    fn resize(&mut self, length: u32) -> Option<()> {
        self.octets.resize(length as usize, 0);
        Some(())
    }

    fn cut_options(&mut self, count: u32) -> Option<()> {
        let base = if self.octets[0] >> 4 == 4 { 20 } else { 40 };
        self.octets.drain(base..base + count as usize);
        self.partial = self
            .partial
            .map(|(start, offset)| (start - count as usize, offset));
        Some(())
    }

    fn is_partial(&mut self, offset: u32) -> Option<bool> {
        assert_eq!(self.octets.read::<2>(offset)?, [0, 0]);
        if self.partial.is_none() {
            self.octets[offset as usize] = 0xa5;
        }
        Some(self.partial.is_some())
    }
}

impl Frame {
    /// What the device, or the kernel for it, does with a checksum that is left to it.
    fn complete(&mut self) {
        let (start, offset) = self.partial.take().expect("a partial checksum");
        let sum = sum_of(&self.octets[start..]);
        self.octets[start + offset..start + offset + 2].copy_from_slice(&(!sum).to_be_bytes());
    }
}

/// The sum of RFC 1071 the slow way: octet by octet, in network order.
fn sum_of(octets: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// An IP packet with these options or extension headers.
fn ip(v6: bool, options: &[u8], protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = options.len() + body.len();
    let mut packet;
    if v6 {
        let first = if options.is_empty() { protocol } else { 60 };
        packet = vec![0x60, 1, 2, 3];
        packet.extend(u16::try_from(length).unwrap().to_be_bytes());
        packet.extend([first, 9]);
        packet.extend(SRC_V6);
        packet.extend(DST_V6);
    } else {
        packet = vec![0x45 + u8::try_from(options.len() / 4).unwrap(), 0xb8];
        packet.extend(u16::try_from(length + 20).unwrap().to_be_bytes());
        packet.extend([0x12, 0x34, 0x40, 0, 9, protocol, 0xab, 0xcd]);
        packet.extend(SRC_V4);
        packet.extend(DST_V4);
    }
    packet.extend(options);
    packet.extend(body);
    packet
}

/// Destination options that are padding, followed by a header of `next`.
fn extension(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

fn tcp(sequence: u32, acknowledged: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = PORTS.to_vec();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledged.to_be_bytes());
    segment.extend([0x60, flags, 1, 2, 3, 4, 0, 0]);
    segment.extend([2, 4, 5, 0xb4]);
    segment.extend(payload);
    segment
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = PORTS.to_vec();
    datagram.extend(u16::try_from(payload.len() + 8).unwrap().to_be_bytes());
    datagram.extend([0xbe, 0xef]);
    datagram.extend(payload);
    datagram
}

fn answer_of(octets: &[u8], partial: Option<(usize, usize)>) -> Frame {
    let ether_type = if octets[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    let mut frame = Frame {
        octets: octets.to_vec(),
        partial,
    };
    let packet = parse(&frame, ether_type).unwrap();
    assert!(is_answerable(&frame, &packet));
    answer(&mut frame, &packet).unwrap();
    frame
}

/// Checks the IP header of an answer; returns protocol and body.
fn opened(octets: &[u8]) -> (u8, &[u8]) {
    if octets[0] == 0x45 {
        let (header, body) = octets.split_at(20);
        assert_eq!(sum_of(header), 0xffff, "IP header checksum");
        assert_eq!(
            usize::from(u16::from_be_bytes([header[2], header[3]])),
            octets.len()
        );
        assert_eq!((&header[12..16], &header[16..20]), (&DST_V4[..], &SRC_V4[..]));
        return (header[9], body);
    }
    let (header, body) = octets.split_at(40);
    assert_eq!(header[..4], [0x60, 0, 0, 0]);
    assert_eq!(
        usize::from(u16::from_be_bytes([header[4], header[5]])),
        body.len()
    );
    assert_eq!((&header[8..24], &header[24..40]), (&DST_V6[..], &SRC_V6[..]));
    (header[6], body)
}

/// The sum of a body with its pseudo-header: 0xffff if the checksum is right.
fn covered(octets: &[u8], protocol: u8, body: &[u8]) -> u16 {
    let addresses = if octets[0] == 0x45 {
        &octets[12..20]
    } else {
        &octets[8..40]
    };
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    sum_of(&[addresses, &length, &[0, 0, 0, protocol], body].concat())
}

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
fn a_syn_is_refused_with_the_number_behind_it() {
    for (v6, options) in families() {
        for (payload, ack) in [(&[][..], 1), (&[7; 99][..], 100)] {
            let frame = answer_of(&ip(v6, &options, TCP, &tcp(u32::MAX, 5, SYN, payload)), None);
            let (protocol, body) = opened(&frame.octets);
            assert_eq!((protocol, body.len()), (TCP, 20));
            assert_eq!(body[..4], [0x1f, 0x90, 0x9c, 0x40]);
            assert_eq!(body[4..8], [0; 4]);
            assert_eq!(body[8..12], (ack - 1_u32).to_be_bytes());
            assert_eq!(body[12..16], [0x50, 0x14, 0, 0]);
            assert_eq!(covered(&frame.octets, TCP, body), 0xffff);
        }
    }
}

#[test]
fn an_established_connection_is_reset_with_the_number_that_the_client_waits_for() {
    for (v6, options) in families() {
        let frame = answer_of(
            &ip(v6, &options, TCP, &tcp(77, 0xdead_beef, PSH_ACK, &[1; 1400])),
            None,
        );
        let (_, body) = opened(&frame.octets);
        assert_eq!(body[4..16], [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0x50, RST, 0, 0]);
        assert_eq!(covered(&frame.octets, TCP, body), 0xffff);
    }
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_right_once_it_is_completed() {
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
fn nat_on_the_way_does_not_spoil_an_icmp_error_that_is_completed_later() {
    let datagram = ip(false, &[], UDP, &udp(b"a question"));
    let mut frame = answer_of(&datagram, Some((20, 6)));
    let quoted_destination = 20 + 8 + 16;
    frame.octets[quoted_destination..quoted_destination + 4].copy_from_slice(&[10, 96, 0, 1]);
    frame.complete();
    assert_eq!(sum_of(opened(&frame.octets).1), 0xffff);
}

#[test]
fn a_datagram_gets_port_unreachable_with_the_datagram_quoted() {
    for (v6, _) in families() {
        for (size, quoted) in [(0, 0), (1, 0), (4, 4), (63, 60), (1400, 1400)] {
            let datagram = ip(v6, &[], UDP, &udp(&vec![0x5a; size]));
            let frame = answer_of(&datagram, None);
            let (protocol, body) = opened(&frame.octets);
            let header = if v6 { 40 } else { 20 };
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
fn options_are_quoted_and_not_repeated() {
    for options in [vec![1; 4], vec![1; 40]] {
        let datagram = ip(false, &options, UDP, &udp(b"a question"));
        let frame = answer_of(&datagram, None);
        let (_, body) = opened(&frame.octets);
        assert_eq!(body[8..], datagram[..datagram.len() & !3]);
        assert_eq!(sum_of(body), 0xffff);
    }
    let datagram = ip(true, &extension(UDP), UDP, &udp(b"a question"));
    let frame = answer_of(&datagram, None);
    let (protocol, body) = opened(&frame.octets);
    assert_eq!(body[8..], datagram[..datagram.len() & !3]);
    assert_eq!(covered(&frame.octets, protocol, body), 0xffff);
}

#[test]
fn an_sctp_init_is_quoted_with_its_tag() {
    let mut init = PORTS.to_vec();
    init.extend([0, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 20]);
    init.extend([9; 16]);
    let packet = ip(false, &[], SCTP, &init);
    let frame = answer_of(&packet, None);
    let (protocol, body) = opened(&frame.octets);
    assert_eq!((protocol, &body[..2], &body[8..]), (1, &[3, 3][..], &packet[..]));
}

#[test]
fn what_must_not_be_answered_is_not() {
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
    let fragment = |offset: u8| {
        let mut packet = ip(false, &[], UDP, &udp(&[]));
        packet[6..8].copy_from_slice(&[0x20, offset]);
        packet
    };
    for (name, packet, answered) in [
        ("SYN", ip(false, &[], TCP, &tcp(0, 0, SYN, &[])), true),
        ("RST", ip(false, &[], TCP, &tcp(0, 0, RST, &[])), false),
        ("RST, ACK", ip(true, &[], TCP, &tcp(0, 0, RST | 0x10, &[])), false),
        ("UDP", ip(true, &[], UDP, &udp(&[])), true),
        ("SCTP INIT", ip(false, &[], SCTP, &sctp(1)), true),
        ("SCTP ABORT", ip(false, &[], SCTP, &sctp(6)), false),
        ("SCTP SHUTDOWN COMPLETE", ip(false, &[], SCTP, &sctp(14)), false),
        ("ICMP echo", ip(false, &[], 1, &[8; 8]), false),
        ("ICMP error", ip(false, &[], 1, &[3; 36]), false),
        ("ICMPv6 error", ip(true, &[], 58, &[1; 56]), false),
        ("first fragment", fragment(0), true),
        ("second fragment", fragment(1), false),
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
    assert_eq!(answer(&mut frame, &packet), None);
    assert_eq!(frame.octets, datagram);
}

//! Frames by hand: each names what it exercises.

extern crate std;
use super::*;
use crate::reject::testing::{DST_V4, SRC_V4, fragmented, ip};
use std::vec::Vec;

impl Bytes for Vec<u8> {
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.get(offset as usize..)?.get(..N)?.try_into().ok()
    }

    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        let mut words = [0; N];
        for (i, word) in words.iter_mut().enumerate() {
            *word = u32::from_ne_bytes(self.read(offset + u32::try_from(i).ok()? * 4)?);
        }
        Some(words)
    }
}

const TCP_SYN: [u8; 14] = [0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02];

/// The ports of a packet, and whether it opens a flow.
type Shown = Option<(u16, u16, bool)>;

fn ports(packet: &Vec<u8>, ether_type: u16) -> Shown {
    let packet = parse(packet, ether_type)?;
    let opens = packet.transport == Transport::Opening;
    packet
        .transport
        .has_ports()
        .then_some((packet.src_port, packet.dst_port, opens))
}

#[test]
fn ports_and_openings_are_found_behind_tags_options_and_extension_headers() {
    let syn = ip(false, &[], 6, &TCP_SYN);
    let tagged = |ether_type: [u8; 2], inner: &[u8]| [&[0, 5], &ether_type[..], inner].concat();
    let one = tagged([0x08, 0x00], &syn);
    let two = tagged([0x81, 0x00], &one);
    let mut syn_ack = TCP_SYN;
    syn_ack[13] = 0x12;
    let sctp = |chunk| {
        [
            0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, chunk, 0, 0, 20,
        ]
    };
    // Hop-by-hop of 8 octets, destination options of 16, authentication of 24.
    let mut extended = std::vec![
        60, 0, 1, 4, 0, 0, 0, 0, 51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    ];
    extended.extend_from_slice(&[
        6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    extended.extend_from_slice(&TCP_SYN);
    let endless: Vec<u8> = (0..20)
        .flat_map(|_| [60, 0, 0, 0, 0, 0, 0, 0])
        .chain(TCP_SYN)
        .collect();
    let fragment = |offset| [&[6, 0, 0, offset, 0, 0, 0, 9], &TCP_SYN[..]].concat();
    let (opens, goes_on) = (Some((40_000, 8080, true)), Some((40_000, 8080, false)));
    let version_6 = [&[0x65], &syn[1..]].concat();
    for words in 0..5 {
        assert_eq!(
            parse(&[&[0x40 | words], &syn[1..]].concat(), IPV4),
            None,
            "an IPv4 header of {words} words"
        );
    }
    for (name, packet, ether_type, shown) in [
        ("TCP SYN", syn, IPV4, opens),
        ("TCP SYN+ACK", fragmented(0, 6, &syn_ack), IPV4, goes_on),
        ("SCTP INIT", ip(false, &[], 132, &sctp(1)), IPV4, opens),
        ("SCTP DATA", ip(false, &[], 132, &sctp(0)), IPV4, goes_on),
        ("UDP", ip(false, &[], 17, &TCP_SYN[..8]), IPV4, goes_on),
        (
            "IPv4 options",
            ip(false, &[1; 40], 6, &TCP_SYN),
            IPV4,
            opens,
        ),
        ("one VLAN tag", one, 0x8100, opens),
        ("two", two, 0x88a8, opens),
        (
            "extension headers",
            ip(true, &[], 0, &extended),
            IPV6,
            opens,
        ),
        (
            "an endless chain of them",
            ip(true, &[], 60, &endless),
            IPV6,
            None,
        ),
        (
            "the first fragment of IPv4",
            fragmented(0x2000, 17, &TCP_SYN),
            IPV4,
            goes_on,
        ),
        (
            "the first fragment of IPv6",
            ip(true, &[], 44, &fragment(1)),
            IPV6,
            opens,
        ),
        ("IPv4 of version 6", version_6, IPV4, None),
        ("ARP", std::vec![0; 64], 0x0806, None),
    ] {
        assert_eq!(ports(&packet, ether_type), shown, "{name}");
    }
}

#[test]
fn addresses_are_read_and_a_later_fragment_has_no_ports() {
    let packet = parse(&ip(false, &[], 6, &TCP_SYN), IPV4).unwrap();
    assert_eq!(
        (packet.src, packet.dst),
        (Addr::v4(SRC_V4), Addr::v4(DST_V4))
    );
    for bit in 0..13 {
        let [high, low] = (8_u16 << bit | 1).to_be_bytes();
        let later = ip(
            true,
            &[],
            44,
            &[&[6, 0, high, low, 0, 0, 0, 9], &TCP_SYN[..]].concat(),
        );
        for (packet, ether_type) in [
            (fragmented(0x2000 | 1 << bit, 17, &TCP_SYN), IPV4),
            (later, IPV6),
        ] {
            let transport = parse(&packet, ether_type).unwrap().transport;
            assert_eq!(transport, Transport::Fragment, "{ether_type:#x}, bit {bit}");
        }
    }
}

#[test]
fn an_ipv6_packet_with_a_v4_mapped_address_on_the_wire_is_not_ipv4() {
    let mapped = Addr::v4([10, 244, 1, 10]).octets;
    for at in [8, 24] {
        let mut packet = ip(true, &[], 6, &TCP_SYN);
        assert!(parse(&packet, IPV6).is_some());
        packet[at..at + 16].copy_from_slice(&mapped);
        assert_eq!(parse(&packet, IPV6), None);
    }
}

#[test]
fn truncated_packets_are_no_packets_at_any_length() {
    let tags = [
        &[0, 5, 0x81, 0, 0, 5, 8, 0],
        &ip(false, &[], 6, &TCP_SYN)[..],
    ]
    .concat();
    let fragment = [
        &[44, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 9],
        &TCP_SYN[..],
    ]
    .concat();
    let whole = [
        (ip(false, &[1; 8], 6, &TCP_SYN), IPV4),
        (ip(false, &[], 17, &TCP_SYN[..4]), IPV4),
        (ip(false, &[], 132, &TCP_SYN[..13]), IPV4),
        (tags, 0x88a8),
        (ip(true, &[], 6, &TCP_SYN), IPV6),
        (ip(true, &[], 17, &TCP_SYN[..4]), IPV6),
        (ip(true, &[], 0, &fragment), IPV6),
    ];
    for (packet, ether_type) in whole {
        assert!(parse(&packet, ether_type).is_some());
        for length in 0..packet.len() {
            assert_eq!(
                parse(&packet[..length].to_vec(), ether_type),
                None,
                "{length} octets"
            );
        }
    }
}

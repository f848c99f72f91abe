//! Frames by hand: each names what it exercises.

extern crate std;
use super::*;
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

fn ipv4(options: &[u8], fragment: u16, protocol: u8, body: &[u8]) -> Vec<u8> {
    let ihl = 5 + u8::try_from(options.len() / 4).unwrap();
    let [high, low] = fragment.to_be_bytes();
    let mut packet =
        std::vec![0x40 | ihl, 0, 0, 0, 0, 0, high, low, 64, protocol, 0, 0, 10, 244, 1, 2, 10, 96, 0, 10];
    packet.extend_from_slice(options);
    packet.extend_from_slice(body);
    packet
}

fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet.extend_from_slice(&[0xfd; 16]);
    packet.extend_from_slice(&[0xfe; 16]);
    packet.extend_from_slice(body);
    packet
}

fn ports(packet: &Vec<u8>, ether_type: u16) -> Option<(u16, u16, bool)> {
    let packet = parse(packet, ether_type)?;
    let opens = packet.transport == Transport::Opening;
    packet.transport.has_ports().then_some((packet.src_port, packet.dst_port, opens))
}

#[test]
fn a_tcp_syn_over_ipv4_opens_a_flow() {
    let packet = parse(&ipv4(&[], 0x4000, 6, &TCP_SYN), IPV4).unwrap();
    assert_eq!(packet.src, Addr::v4([10, 244, 1, 2]));
    assert_eq!(packet.dst, Addr::v4([10, 96, 0, 10]));
    assert_eq!((packet.src_port, packet.dst_port, packet.transport), (40_000, 8080, Transport::Opening));
}

#[test]
fn a_syn_ack_opens_no_flow() {
    let mut answer = TCP_SYN;
    answer[13] = 0x12;
    assert_eq!(ports(&ipv4(&[], 0, 6, &answer), IPV4), Some((40_000, 8080, false)));
}

#[test]
fn ipv4_options_are_skipped() {
    assert_eq!(ports(&ipv4(&[1; 40], 0, 6, &TCP_SYN), IPV4), Some((40_000, 8080, true)));
}

#[test]
fn one_and_two_vlan_tags_are_skipped() {
    let inner = ipv4(&[], 0, 6, &TCP_SYN);
    let mut one = std::vec![0, 5, 0x08, 0x00];
    one.extend_from_slice(&inner);
    assert_eq!(ports(&one, 0x8100), Some((40_000, 8080, true)));
    let mut two = std::vec![0, 5, 0x81, 0x00];
    two.extend_from_slice(&one);
    assert_eq!(ports(&two, 0x88a8), Some((40_000, 8080, true)));
}

#[test]
fn sctp_init_opens_and_sctp_data_does_not() {
    let mut chunk = [0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20];
    assert_eq!(ports(&ipv4(&[], 0, 132, &chunk), IPV4), Some((40_000, 8080, true)));
    chunk[12] = 0;
    assert_eq!(ports(&ipv4(&[], 0, 132, &chunk), IPV4), Some((40_000, 8080, false)));
}

#[test]
fn udp_never_opens_a_flow() {
    assert_eq!(ports(&ipv4(&[], 0, 17, &TCP_SYN[..8]), IPV4), Some((40_000, 8080, false)));
}

#[test]
fn a_first_fragment_has_ports_and_a_later_one_has_none() {
    assert!(ports(&ipv4(&[], 0x2000, 17, &TCP_SYN), IPV4).is_some());
    let later = parse(&ipv4(&[], 0x2001, 17, &TCP_SYN), IPV4).unwrap();
    assert_eq!(later.transport, Transport::Fragment);
}

#[test]
fn an_ipv6_packet_with_a_v4_mapped_address_on_the_wire_is_not_ipv4() {
    let mapped = Addr::v4([10, 244, 1, 10]).octets;
    for at in [8, 24] {
        let mut packet = ipv6(6, &TCP_SYN);
        assert!(parse(&packet, IPV6).is_some());
        packet[at..at + 16].copy_from_slice(&mapped);
        assert_eq!(parse(&packet, IPV6), None);
    }
}

#[test]
fn ipv6_extension_headers_are_walked() {
    let mut body = std::vec![60, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop, 8 octets, next: destination options
    body.extend_from_slice(&[51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // 16 octets, next: authentication
    body.extend_from_slice(&[6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // 24 octets
    body.extend_from_slice(&TCP_SYN);
    assert_eq!(ports(&ipv6(0, &body), IPV6), Some((40_000, 8080, true)));
}

#[test]
fn first_and_later_ipv6_fragments_are_distinguished() {
    let mut first = std::vec![6, 0, 0, 1, 0, 0, 0, 9];
    first.extend_from_slice(&TCP_SYN);
    assert_eq!(ports(&ipv6(44, &first), IPV6), Some((40_000, 8080, true)));
    first[3] = 0x09;
    assert_eq!(parse(&ipv6(44, &first), IPV6).unwrap().transport, Transport::Fragment);
}

#[test]
fn an_endless_chain_of_extension_headers_is_refused() {
    let mut body: Vec<u8> = (0..20).flat_map(|_| [60, 0, 0, 0, 0, 0, 0, 0]).collect();
    body.extend_from_slice(&TCP_SYN);
    assert_eq!(parse(&ipv6(60, &body), IPV6), None);
}

#[test]
fn truncated_packets_are_no_packets_at_any_length() {
    let whole = [(ipv4(&[1; 8], 0, 6, &TCP_SYN), IPV4), (ipv6(6, &TCP_SYN), IPV6)];
    for (packet, ether_type) in whole {
        assert!(parse(&packet, ether_type).is_some());
        for length in 0..packet.len() {
            assert_eq!(parse(&packet[..length].to_vec(), ether_type), None, "{length} octets");
        }
    }
}

#[test]
fn malformed_headers_are_no_packets() {
    let mut short_header = ipv4(&[], 0, 6, &TCP_SYN);
    short_header[0] = 0x44;
    assert_eq!(parse(&short_header, IPV4), None);
    let mut wrong_version = ipv4(&[], 0, 6, &TCP_SYN);
    wrong_version[0] = 0x65;
    assert_eq!(parse(&wrong_version, IPV4), None);
    assert_eq!(parse(&std::vec![0; 64], 0x0806), None);
}

//! The octets of the answers, with checksums by another way than the programs'.

use super::*;

const FIN: u8 = 0x01;
const RST_ACK: u8 = 0x14;
const CLIENT_PORT: [u8; 2] = 40_000u16.to_be_bytes();

/// The sum of RFC 1071, octet pair by octet pair.
fn sum(octets: &[u8]) -> u16 {
    let total: u64 =
        octets.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    u16::try_from(total % 0xffff).unwrap()
}

fn put_checksum(octets: &mut [u8], at: usize, extra: &[u8]) {
    let total = (u32::from(sum(octets)) + u32::from(sum(extra))) % 0xffff;
    let checksum = !u16::try_from(total).unwrap();
    octets[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The packet from a pod back to the client, with its checksum at this place of the body.
fn from(pod: Addr, protocol: u8, mut body: Vec<u8>, checksum_at: usize) -> Vec<u8> {
    let is_v4 = pod.ip().is_ipv4();
    let (pod, client) = if is_v4 { (&pod.octets[12..], &SRC_V4[..]) } else { (&pod.octets[..], &SRC_V6[..]) };
    let length = u16::try_from(body.len()).unwrap();
    let pseudo = [pod, client, &length.to_be_bytes(), &[0, protocol]].concat();
    let covered = if protocol == ICMP { &[][..] } else { &pseudo };
    put_checksum(&mut body, checksum_at, covered);
    let mut header = if is_v4 {
        let mut header = vec![0x45, 0];
        header.extend((length + 20).to_be_bytes());
        header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(length.to_be_bytes());
        header.extend([protocol, 64]);
        header
    };
    header.extend([pod, client].concat());
    if is_v4 {
        put_checksum(&mut header, 10, &[]);
    }
    [header, body].concat()
}

/// A RST with these numbers.
fn reset(pod: Addr, sequence: u32, acknowledged: u32, flags: u8) -> Vec<u8> {
    let mut segment = [PORT.to_be_bytes(), CLIENT_PORT].concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledged.to_be_bytes());
    segment.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    from(pod, TCP, segment, 16)
}

/// Port unreachable with the packet quoted.
fn unreachable(pod: Addr, packet: &[u8]) -> Vec<u8> {
    let quoted = &packet[..(packet.len() & !3).min(MAX_QUOTE as usize)];
    let (protocol, kind) = if pod.ip().is_ipv4() { (ICMP, [3, 3]) } else { (ICMPV6, [1, 4]) };
    let body = [&kind[..], &[0; 6], quoted].concat();
    from(pod, protocol, body, 2)
}

/// The frame with this packet on its way back: link-layer addresses change places, tags stay.
fn back(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = tagged(tags, packet);
    let (destination, rest) = frame.split_at_mut(6);
    destination.swap_with_slice(&mut rest[..6]);
    frame
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn tcp_gets_a_rst_with_the_numbers_of_the_rfc_and_udp_and_sctp_get_port_unreachable_with_the_packet_quoted() {
    let mut rig = rejecting();
    let padding: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let chain: &[(u8, &[u8])] = &[(0, padding), (60, padding)];
    for pod in [REUSED, REUSED_V6] {
        // tcp() has sequence number 1 and acknowledgement number 2.
        let segments = [
            ("SYN", tcp(PORT, SYN), (0, 2, RST_ACK)),
            ("SYN with data", [tcp(PORT, SYN), vec![7; 9]].concat(), (0, 11, RST_ACK)),
            ("SYN+ACK", tcp(PORT, SYN | ACK), (2, 0, 4)),
            ("established", tcp(PORT, ACK), (2, 0, 4)),
            ("data", [tcp(PORT, ACK), vec![7; 1400]].concat(), (2, 0, 4)),
            ("FIN without ACK", tcp(PORT, FIN), (0, 2, RST_ACK)),
            ("nothing", tcp(PORT, 0), (0, 1, RST_ACK)),
        ];
        let resets = segments.map(|(name, segment, (sequence, acknowledged, flags))| {
            (name, packet(pod, TCP, &segment), reset(pod, sequence, acknowledged, flags))
        });
        let others = [
            ("UDP", packet(pod, UDP, &udp(PORT))),
            ("UDP, odd", packet(pod, UDP, &[udp(PORT), vec![1; 7]].concat())),
            ("UDP, long", packet(pod, UDP, &[udp(PORT), vec![9; 1300]].concat())),
            ("SCTP INIT", packet(pod, SCTP, &sctp(PORT, 1))),
            ("SCTP DATA", packet(pod, SCTP, &sctp(PORT, 0))),
        ];
        // Options and extension headers are quoted, and not repeated.
        let extended = |fragment, protocol, body: &[u8]| match pod {
            REUSED => {
                [1, 4, 10].map(|words| v4_with(pod, &vec![1; words * 4], fragment, protocol, body)).into()
            }
            _ => vec![v6_with(pod, chain, protocol, body)],
        };
        let syns = extended(0, TCP, &tcp(PORT, SYN));
        let syns = syns.into_iter().map(|syn| ("SYN with options", syn, reset(pod, 0, 2, RST_ACK)));
        let datagrams = extended(0x2000, UDP, &udp(PORT)).into_iter().map(|ip| ("UDP with options", ip));
        let quoted = others.into_iter().chain(datagrams).map(|(name, ip)| {
            let answer = unreachable(pod, &ip);
            (name, ip, answer)
        });
        for (name, request, expected) in resets.into_iter().chain(syns).chain(quoted) {
            assert_eq!(answer(&mut rig, name, &frame(&request)), back(&[], &expected), "{name}");
            let is_plain = matches!(name, "SYN" | "UDP");
            for tags in [&[0x8100][..], &[0x88a8, 0x8100]].into_iter().filter(|_| is_plain) {
                let answered = answer(&mut rig, name, &tagged(tags, &request));
                assert_eq!(answered, back(tags, &expected), "{name} behind {tags:x?}");
            }
        }
    }
}

//! The octets of the answers, with checksums by another way than the programs'.

use super::*;

const FIN: u8 = 0x01;
const RST_ACK: u8 = 0x14;
const CLIENT_PORT: [u8; 2] = 40_000u16.to_be_bytes();

/// The sum of RFC 1071, octet pair by octet pair.
fn sum(octets: &[u8]) -> u16 {
    let total: u64 = octets
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    u16::try_from(total % 0xffff).unwrap()
}

fn put_checksum(octets: &mut [u8], at: usize, extra: &[u8]) {
    let total = (u32::from(sum(octets)) + u32::from(sum(extra))) % 0xffff;
    let checksum = !u16::try_from(total).unwrap();
    octets[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The packet from this address back to the client, with its checksum at this place of the body.
fn from(source: Addr, protocol: u8, mut body: Vec<u8>, checksum_at: usize) -> Vec<u8> {
    let is_v4 = source.ip().is_ipv4();
    let source = on_wire(&source);
    let client = if is_v4 { &SRC_V4[..] } else { &SRC_V6[..] };
    let length = u16::try_from(body.len()).unwrap();
    let pseudo = [source, client, &length.to_be_bytes(), &[0, protocol]].concat();
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
    header.extend([source, client].concat());
    if is_v4 {
        put_checksum(&mut header, 10, &[]);
    }
    [header, body].concat()
}

fn on_wire(addr: &Addr) -> &[u8] {
    if addr.ip().is_ipv4() {
        &addr.octets[12..]
    } else {
        &addr.octets
    }
}

/// A RST with these numbers.
fn reset(source: Addr, sequence: u32, acknowledged: u32, flags: u8) -> Vec<u8> {
    let mut segment = [PORT.to_be_bytes(), CLIENT_PORT].concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledged.to_be_bytes());
    segment.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    from(source, TCP, segment, 16)
}

/// Port unreachable with the packet quoted, as it was sent to this address.
fn unreachable(source: Addr, packet: &[u8]) -> Vec<u8> {
    let mut quoted = packet[..(packet.len() & !3).min(MAX_QUOTE as usize)].to_vec();
    let is_v4 = source.ip().is_ipv4();
    let destination = if is_v4 { 16..20 } else { 24..40 };
    let was = quoted[destination.clone()].to_vec();
    quoted[destination].copy_from_slice(on_wire(&source));
    if is_v4 && was != on_wire(&source) {
        // The frames of these tests have no checksum there: it changes as RFC 1624 demands.
        let changed = u32::from(sum(&[0xff, 0xff]))
            + u32::from(sum(on_wire(&source)))
            + u32::from(!sum(&was));
        let checksum = !u16::try_from(changed % 0xffff).unwrap();
        quoted[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let (protocol, kind) = if is_v4 {
        (ICMP, [3, 3])
    } else {
        (ICMPV6, [1, 4])
    };
    let body = [&kind[..], &[0; 6], &quoted].concat();
    from(source, protocol, body, 2)
}

/// The frame with this packet as it enters in the name of the pod: for the interface, from an
/// address that is no pod's. Tags stay.
fn entering(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = tagged(tags, packet);
    let (destination, rest) = frame.split_at_mut(6);
    destination.copy_from_slice(&rest[..6]);
    rest[..6].copy_from_slice(&ANSWER_MAC);
    frame
}

/// Requests to a pod with their answers, which come from this address.
fn answered(pod: Addr, source: Addr) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let padding: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let chain: &[(u8, &[u8])] = &[(0, padding), (60, padding)];
    // tcp() has sequence number 1 and acknowledgement number 2.
    let segments = [
        ("SYN", tcp(PORT, SYN), (0, 2, RST_ACK)),
        (
            "SYN with data",
            [tcp(PORT, SYN), vec![7; 9]].concat(),
            (0, 11, RST_ACK),
        ),
        ("SYN+ACK", tcp(PORT, SYN | ACK), (2, 0, 4)),
        ("established", tcp(PORT, ACK), (2, 0, 4)),
        ("data", [tcp(PORT, ACK), vec![7; 1400]].concat(), (2, 0, 4)),
        ("FIN without ACK", tcp(PORT, FIN), (0, 2, RST_ACK)),
        ("nothing", tcp(PORT, 0), (0, 1, RST_ACK)),
    ];
    let resets = segments.map(|(name, segment, (sequence, acknowledged, flags))| {
        (
            name,
            packet(pod, TCP, &segment),
            reset(source, sequence, acknowledged, flags),
        )
    });
    let others = [
        ("UDP", packet(pod, UDP, &udp(PORT))),
        (
            "UDP, odd",
            packet(pod, UDP, &[udp(PORT), vec![1; 7]].concat()),
        ),
        (
            "UDP, long",
            packet(pod, UDP, &[udp(PORT), vec![9; 1300]].concat()),
        ),
        ("SCTP INIT", packet(pod, SCTP, &sctp(PORT, 1))),
        ("SCTP DATA", packet(pod, SCTP, &sctp(PORT, 0))),
    ];
    // Options and extension headers are quoted, and not repeated.
    let extended = |fragment, protocol, body: &[u8]| match pod {
        REUSED => [1, 4, 10]
            .map(|words| v4_with(pod, &vec![1; words * 4], fragment, protocol, body))
            .into(),
        _ => vec![v6_with(pod, chain, protocol, body)],
    };
    let syns = extended(0, TCP, &tcp(PORT, SYN));
    let syns = syns
        .into_iter()
        .map(|syn| ("SYN with options", syn, reset(source, 0, 2, RST_ACK)));
    let datagrams = extended(0x2000, UDP, &udp(PORT))
        .into_iter()
        .map(|ip| ("UDP with options", ip));
    let quoted = others.into_iter().chain(datagrams).map(|(name, ip)| {
        let answer = unreachable(source, &ip);
        (name, ip, answer)
    });
    resets.into_iter().chain(syns).chain(quoted).collect()
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_client_gets_a_rst_or_port_unreachable_from_the_address_that_it_called() {
    let mut rig = rejecting();
    for pod in [REUSED, REUSED_V6] {
        for (name, request, expected) in answered(pod, vip(pod, PORT, TCP).addr) {
            // The kernel replaces the link-layer addresses on the way out.
            assert_eq!(
                answer(&mut rig, name, &frame(&request)),
                frame(&expected),
                "{name}"
            );
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_process_of_the_node_gets_them_from_the_pod_for_conntrack_to_translate() {
    let mut rig = rejecting();
    rig.came_in_at = 0;
    for pod in [REUSED, REUSED_V6] {
        for (name, request, expected) in answered(pod, pod) {
            assert_eq!(
                answer(&mut rig, name, &frame(&request)),
                entering(&[], &expected),
                "{name}"
            );
            if !matches!(name, "SYN" | "UDP") {
                continue;
            }
            for tags in [&[0x8100][..], &[0x88a8, 0x8100]] {
                let answered = answer(&mut rig, name, &tagged(tags, &request));
                assert_eq!(
                    answered,
                    entering(tags, &expected),
                    "{name} behind {tags:x?}"
                );
            }
        }
    }
}

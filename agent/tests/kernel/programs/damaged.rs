//! Truncated and malformed frames pass. `differential` runs many more, beside an oracle.

use super::frames::{SCTP, SYN, TCP, UDP, frame, packet, sctp, tagged, tcp, udp, v4_with, v6_with};
use super::rig::Rig;
use super::world::{DENIED, PORT, REUSED, REUSED_V6};
use epguard_common::Verdict::Clear;

/// The kernel runs no test on less than an Ethernet header and an octet, nor on less than the IP header that the
/// `EtherType` promises; behind a VLAN tag it doesn't look.
pub fn shortest(frame: &[u8]) -> usize {
    match frame[12..14] {
        [0x08, 0x00] => 14 + 20,
        [0x86, 0xdd] => 14 + 40,
        _ => 14 + 1,
    }
}

/// Octets of a segment or packet that decide nothing: what follows TCP's flags, UDP's ports, SCTP's first chunk type.
const TCP_REST: usize = 6;
const UDP_REST: usize = 8;
const SCTP_REST: usize = 19;

/// Each reaches the endpoint that is denied, and may end earlier by so many octets.
fn whole_frames() -> Vec<(Vec<u8>, usize)> {
    let syn = tcp(PORT, SYN);
    let fragment: &[u8] = &[0, 0, 1, 0, 0, 0, 9];
    let options: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let (v4, v6) = (packet(REUSED, TCP, &syn), packet(REUSED_V6, TCP, &syn));
    let extended = v6_with(REUSED_V6, &[(0, options), (44, fragment)], TCP, &syn);
    vec![
        (frame(&v4), TCP_REST),
        (frame(&packet(REUSED, UDP, &udp(PORT))), UDP_REST),
        (frame(&packet(REUSED, SCTP, &sctp(PORT, 1))), SCTP_REST),
        (frame(&v4_with(REUSED, &[1; 40], 0x2000, TCP, &syn)), TCP_REST),
        (tagged(&[0x88a8, 0x8100], &v4), TCP_REST),
        (frame(&v6), TCP_REST),
        (frame(&packet(REUSED_V6, UDP, &udp(PORT))), UDP_REST),
        (frame(&packet(REUSED_V6, SCTP, &sctp(PORT, 1))), SCTP_REST),
        (tagged(&[0x8100], &v6), TCP_REST),
        (tagged(&[0x8100], &extended), TCP_REST),
    ]
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_truncated_frame_passes_untouched_at_every_length() {
    let mut rig = Rig::new();
    for (whole, rest) in whole_frames() {
        for length in shortest(&whole)..=whole.len() {
            let verdict = if length < whole.len() - rest { Clear } else { DENIED };
            rig.expect(&format!("{length} octets of {}", whole.len()), &whole[..length], verdict);
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn malformed_headers_pass() {
    let v4 = frame(&packet(REUSED, TCP, &tcp(PORT, SYN)));
    let v6 = frame(&packet(REUSED_V6, TCP, &tcp(PORT, SYN)));
    let with = |frame: &[u8], at: usize, octet: u8| {
        let mut frame = frame.to_vec();
        frame[at] = octet;
        frame
    };
    let beyond = frame(&v6_with(REUSED_V6, &[(60, &[255, 0, 0, 0, 0, 0, 0])], TCP, &tcp(PORT, SYN)));
    let mut rig = Rig::new();
    for words in 0..5 {
        rig.expect("an IPv4 header of less than 5 words", &with(&v4, 14, 0x40 | words), Clear);
    }
    rig.expect_all(&[
        ("IPv4 options beyond the end", with(&v4, 14, 0x4f), Clear),
        ("IPv4 of version 0", with(&v4, 14, 0x05), Clear),
        ("IPv4 of version 6", with(&v4, 14, 0x65), Clear),
        ("IPv6 of version 4", with(&v6, 14, 0x40), Clear),
        ("IPv4 that says IPv6", with(&with(&v4, 12, 0x86), 13, 0xdd), Clear),
        ("IPv6 that says IPv4", with(&with(&v6, 12, 0x08), 13, 0x00), Clear),
        ("an extension header beyond the end", beyond, Clear),
    ]);
}

//! Truncated, malformed and random frames: judged as the pure functions of `epguard-common` judge them, and passed
//! where those see no packet.

use super::frames::{SCTP, SYN, TCP, UDP, frame, packet, sctp, tagged, tcp, udp, v4_with, v6_with};
use super::model::expected;
use super::rig::{BOTH, PASS, Rig};
use super::world::{DENIED, PORT, REUSED, REUSED_V6, put_suspects};
use epguard_common::Verdict::Clear;

/// The kernel runs no test on less than an Ethernet header and an octet, nor on less than the IP header that the
/// `EtherType` promises; behind a VLAN tag it doesn't look.
fn shortest(frame: &[u8]) -> usize {
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
            let verdict = if length < whole.len() - rest {
                Clear
            } else {
                DENIED
            };
            rig.expect(
                &format!("{length} octets of {}", whole.len()),
                &whole[..length],
                verdict,
            );
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
    let beyond = frame(&v6_with(
        REUSED_V6,
        &[(60, &[255, 0, 0, 0, 0, 0, 0])],
        TCP,
        &tcp(PORT, SYN),
    ));
    let mut rig = Rig::new();
    for words in 0..5 {
        rig.expect(
            "an IPv4 header of less than 5 words",
            &with(&v4, 14, 0x40 | words),
            Clear,
        );
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

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn random_octets_pass() {
    let mut rig = Rig::new();
    let ether_types = [0x0800_u16, 0x86dd, 0x8100, 0x88a8];
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut frame: Vec<u8> = (0..random.usize(60..200)).map(|_| random.u8(..)).collect();
        let ether_type = random.choice(ether_types).unwrap();
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        let ran = rig.run(BOTH, &frame);
        assert_eq!((ran.action, ran.frame), (PASS, frame), "seed {seed}");
    }
    assert_eq!(rig.counters(), [].into(), "no random address is a suspect's");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn mutilated_frames_are_judged_as_the_pure_functions_judge_them() {
    let mut rig = Rig::new();
    let mut denied = 0;
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut frame, _) = random.choice(whole_frames()).unwrap();
        for _ in 0..random.usize(0..4) {
            let at = random.usize(12..frame.len());
            let octets = [random.u8(..), 0, 0xff, frame[at] ^ 1, 6, 17, 44, 60];
            frame[at] = random.choice(octets).unwrap();
        }
        frame.truncate(random.usize(frame.len() / 2..=frame.len()).max(shortest(&frame)));
        let verdict = expected(&frame);
        forget_events(&mut rig);
        denied += u32::from(verdict == DENIED);
        rig.expect(&format!("seed {seed}"), &frame, verdict);
    }
    assert!((500..4500).contains(&denied), "{denied} of 5000 were denied");
}

/// So that neither the rate of events nor the size of the ring shows in the counters.
fn forget_events(rig: &mut Rig) {
    put_suspects(rig);
    rig.events();
}

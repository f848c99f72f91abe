//! What lies around the transport header: VLAN tags, IPv4 options, IPv6 extension headers, fragments.

use super::frames::{SYN, TCP, UDP, frame, of_type, packet, tagged, tcp, udp, v4_with, v6_with};
use super::rig::Rig;
use super::world::{DENIED, OTHER_PORT, PORT, REUSED, REUSED_V6};
use epguard_common::Outcome;
use epguard_common::Reason::Nothing;
use epguard_common::Verdict::{Clear, Pass};

const Q: u16 = 0x8100;
const AD: u16 = 0x88a8;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_are_judged_behind_one_or_two_vlan_tags() {
    let mut rig = Rig::new();
    for dst in [REUSED, REUSED_V6] {
        let syn = packet(dst, TCP, &tcp(PORT, SYN));
        let other = packet(dst, TCP, &tcp(OTHER_PORT, SYN));
        rig.expect_all(&[
            ("802.1Q", tagged(&[Q], &syn), DENIED),
            ("802.1ad", tagged(&[AD], &syn), DENIED),
            ("802.1ad, 802.1Q", tagged(&[AD, Q], &syn), DENIED),
            ("802.1Q twice", tagged(&[Q, Q], &syn), DENIED),
            ("three tags", tagged(&[AD, Q, Q], &syn), Clear),
            ("four tags", tagged(&[Q; 4], &syn), Clear),
            ("tagged ARP", of_type(&[Q], 0x0806, &syn), Clear),
            (
                "another port",
                tagged(&[Q], &other),
                Pass(Nothing, Outcome::NotDenied),
            ),
        ]);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn ipv4_options_are_skipped_at_every_length() {
    let mut rig = Rig::new();
    for words in 1..=10 {
        let options = vec![1; words * 4];
        let syn = frame(&v4_with(REUSED, &options, 0, TCP, &tcp(PORT, SYN)));
        rig.expect(&format!("{words} words of options"), &syn, DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn first_and_later_ipv4_fragments_are_distinguished() {
    let fragment = |fragment| frame(&v4_with(REUSED, &[], fragment, UDP, &udp(PORT)));
    let no_ports = Pass(Nothing, Outcome::NoIntent);
    let mut rig = Rig::new();
    for bit in 0..13 {
        rig.expect(&format!("at 2^{bit}"), &fragment(1 << bit), no_ports);
    }
    rig.expect_all(&[
        ("whole", fragment(0), DENIED),
        ("not to be fragmented", fragment(0x4000), DENIED),
        ("first", fragment(0x2000), DENIED),
        ("second", fragment(0x2001), no_ports),
        ("last", fragment(0x0001), no_ports),
        ("far", fragment(0x1fff), no_ports),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn first_and_later_ipv6_fragments_are_distinguished() {
    let fragment = |offset_and_flags: u16| {
        let [high, low] = offset_and_flags.to_be_bytes();
        frame(&v6_with(
            REUSED_V6,
            &[(44, &[0, high, low, 0, 0, 0, 9])],
            UDP,
            &udp(PORT),
        ))
    };
    let no_ports = Pass(Nothing, Outcome::NoIntent);
    let mut rig = Rig::new();
    for bit in 0..13 {
        rig.expect(&format!("at 2^{bit}"), &fragment(8 << bit), no_ports);
    }
    rig.expect_all(&[
        ("atomic", fragment(0), DENIED),
        ("first", fragment(1), DENIED),
        ("second", fragment(8 | 1), no_ports),
        ("last", fragment(8), no_ports),
        ("far", fragment(0xfff8), no_ports),
    ]);
}

/// 8 octets: options that are padding.
const SHORT: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
/// 24 octets.
const LONG: &[u8] = &[
    2, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
/// 24 octets by the count of an authentication header (RFC 4302).
const AUTHENTICATION: &[u8] = &[
    4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
];
const FIRST_FRAGMENT: &[u8] = &[0, 0, 1, 0, 0, 0, 9];

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn ipv6_extension_headers_are_walked() {
    let syn = |extensions: &[(u8, &[u8])]| frame(&v6_with(REUSED_V6, extensions, TCP, &tcp(PORT, SYN)));
    Rig::new().expect_all(&[
        ("hop-by-hop", syn(&[(0, SHORT)]), DENIED),
        ("hop-by-hop, long", syn(&[(0, LONG)]), DENIED),
        ("routing", syn(&[(43, LONG)]), DENIED),
        ("destination options", syn(&[(60, SHORT)]), DENIED),
        ("authentication", syn(&[(51, AUTHENTICATION)]), DENIED),
        (
            "every kind",
            syn(&[
                (0, SHORT),
                (60, LONG),
                (43, SHORT),
                (44, FIRST_FRAGMENT),
                (51, AUTHENTICATION),
                (60, SHORT),
            ]),
            DENIED,
        ),
        (
            "ESP hides the rest",
            syn(&[(50, SHORT)]),
            Pass(Nothing, Outcome::NoIntent),
        ),
        (
            "mobility is not walked",
            syn(&[(135, SHORT)]),
            Pass(Nothing, Outcome::NoIntent),
        ),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_chain_of_too_many_extension_headers_passes() {
    let mut rig = Rig::new();
    for length in 0..=20 {
        let chain = vec![(60, SHORT); length];
        let syn = frame(&v6_with(REUSED_V6, &chain, TCP, &tcp(PORT, SYN)));
        let verdict = if length <= epguard_common::MAX_EXTENSIONS {
            DENIED
        } else {
            Clear
        };
        rig.expect(&format!("{length} headers"), &syn, verdict);
    }
}

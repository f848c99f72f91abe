//! What lies around the transport header: VLAN tags, IPv4 options, IPv6 extension headers, fragments.

use super::frames::{
    SRC_V4, SRC_V6, SYN, TCP, UDP, frame, of_type, packet, tagged, tcp, udp, v4_with, v6_with,
};
use super::rig::Rig;
use super::tracked::Tracked;
use super::world::{CLIENT_PORT, DENIED, OTHER_PORT, PORT, REUSED, REUSED_V6, vip};
use epguard_common::Reason::Nothing;
use epguard_common::Verdict::{Clear, Pass};
use epguard_common::{Addr, Outcome};

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
            ("another port", tagged(&[Q], &other), Pass(Nothing, Outcome::NotDenied)),
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

/// Fragments by flags and offset, as IPv4 has them: whether each shows its ports.
const FRAGMENTS: [(&str, u16, bool); 6] = [
    ("whole", 0, true),
    ("not to be fragmented", 0x4000, true),
    ("first", 0x2000, true),
    ("second", 0x2001, false),
    ("last", 0x0001, false),
    ("far", 0x1fff, false),
];

fn fragments() -> Vec<(String, Vec<u8>, bool)> {
    let bits = (0..13).map(|bit| (format!("at 2^{bit}"), 1 << bit, false));
    let named = FRAGMENTS.map(|(name, fragment, ports)| (name.to_owned(), fragment, ports));
    let all = bits.chain(named).flat_map(|(name, fragment, ports)| {
        let v4 = v4_with(REUSED, &[], fragment, UDP, &udp(PORT));
        let [high, low] = (fragment << 3 | fragment >> 13 & 1).to_be_bytes();
        let header: &[u8] = &[0, high, low, 0, 0, 0, 9];
        let v6 = v6_with(REUSED_V6, &[(44, header)], UDP, &udp(PORT));
        [(name.clone(), frame(&v4), ports), (name, frame(&v6), ports)]
    });
    all.collect()
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_later_fragment_is_judged_by_the_port_of_its_connection() {
    let mut rig = Rig::new();
    for (name, fragment, shows_ports) in fragments() {
        rig.tracked = None;
        rig.expect(&name, &fragment, DENIED);
        let (endpoint, client) = match fragment[12] {
            0x08 => (REUSED, Addr::v4(SRC_V4)),
            _ => (REUSED_V6, Addr::v6(SRC_V6)),
        };
        let vip = vip(endpoint, OTHER_PORT, UDP);
        rig.tracked = Some(Tracked::translated(
            (client, CLIENT_PORT),
            (vip.addr, vip.port),
            (endpoint, OTHER_PORT),
            UDP,
        ));
        let outcome = if shows_ports { Outcome::UnreadableConnection } else { Outcome::NotDenied };
        rig.expect(&format!("{name}, of another port"), &fragment, Pass(Nothing, outcome));
    }
}

/// 8 octets: options that are padding.
const SHORT: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
/// 24 octets.
const LONG: &[u8] = &[2, 1, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// 24 octets by the count of an authentication header (RFC 4302).
const AUTHENTICATION: &[u8] = &[4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
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
        ("ESP hides the rest", syn(&[(50, SHORT)]), Pass(Nothing, Outcome::NoIntent)),
        ("mobility is not walked", syn(&[(135, SHORT)]), Pass(Nothing, Outcome::NoIntent)),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_chain_of_too_many_extension_headers_passes() {
    let mut rig = Rig::new();
    for length in 0..=20 {
        let chain = vec![(60, SHORT); length];
        let syn = frame(&v6_with(REUSED_V6, &chain, TCP, &tcp(PORT, SYN)));
        let verdict = if length <= epguard_common::MAX_EXTENSIONS { DENIED } else { Clear };
        rig.expect(&format!("{length} headers"), &syn, verdict);
    }
}

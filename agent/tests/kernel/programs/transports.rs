//! What a packet carries, over both families.

use super::frames::{
    ACK, ICMP, ICMPV6, RST, SCTP, SYN, TCP, UDP, frame, of_type, packet, sctp, tcp, udp, v4_with,
};
use super::rig::Rig;
use super::world::{
    DENIED, DRAINING, INNOCENT, LIVE, MOVED, NO_PORT, OTHER_PORT, PORT, RETIRED, REUSED, REUSED_V6, vip,
};
use epguard_common::Reason::{self, Nothing, RetiredBackend};
use epguard_common::Verdict::{self, Clear, Pass};
use epguard_common::{Addr, DenialKey, Keyed, Outcome, RawDenial, ServiceNumber, Vip};

const NO_NEW_FLOW: Verdict = Verdict::Deny { reason: RetiredBackend, enforce: true };

fn to(dst: Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    frame(&packet(dst, protocol, body))
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn every_packet_of_a_service_to_its_dead_pod_is_dropped() {
    let mut rig = Rig::new();
    for dst in [REUSED, REUSED_V6] {
        rig.expect_all(&[
            ("TCP SYN", to(dst, TCP, &tcp(PORT, SYN)), DENIED),
            ("TCP, established", to(dst, TCP, &tcp(PORT, ACK)), DENIED),
            ("TCP SYN+ACK", to(dst, TCP, &tcp(PORT, SYN | ACK)), DENIED),
            ("TCP RST", to(dst, TCP, &tcp(PORT, RST)), DENIED),
            ("TCP RST+ACK", to(dst, TCP, &tcp(PORT, RST | ACK)), DENIED),
            ("UDP", to(dst, UDP, &udp(PORT)), DENIED),
            ("SCTP INIT", to(dst, SCTP, &sctp(PORT, 1)), DENIED),
            ("SCTP DATA", to(dst, SCTP, &sctp(PORT, 0)), DENIED),
        ]);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_retired_pod_gets_no_new_flow_and_keeps_its_old_ones() {
    let kept = Pass(RetiredBackend, Outcome::Established);
    Rig::new().expect_all(&[
        ("TCP SYN", to(RETIRED, TCP, &tcp(PORT, SYN)), NO_NEW_FLOW),
        ("TCP SYN+ACK", to(RETIRED, TCP, &tcp(PORT, SYN | ACK)), kept),
        ("TCP, established", to(RETIRED, TCP, &tcp(PORT, ACK)), kept),
        ("TCP RST", to(RETIRED, TCP, &tcp(PORT, RST)), kept),
        ("UDP", to(RETIRED, UDP, &udp(PORT)), kept),
        ("SCTP INIT", to(RETIRED, SCTP, &sctp(PORT, 1)), NO_NEW_FLOW),
        ("SCTP DATA", to(RETIRED, SCTP, &sctp(PORT, 0)), kept),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_to_other_endpoints_or_of_other_services_pass() {
    let no_intent = Pass(Nothing, Outcome::NoIntent);
    let not_denied = Pass(Nothing, Outcome::NotDenied);
    let mut rig = Rig::new();
    rig.expect_all(&[
        ("no Service's port", to(REUSED, TCP, &tcp(NO_PORT, SYN)), no_intent),
        ("another port", to(REUSED, TCP, &tcp(OTHER_PORT, SYN)), not_denied),
        ("another port, UDP", to(REUSED, UDP, &udp(OTHER_PORT)), not_denied),
        ("another Service", to(MOVED, TCP, &tcp(PORT, SYN)), not_denied),
        ("another IP", to(INNOCENT, TCP, &tcp(PORT, SYN)), Clear),
        ("nobody's IP", to(Addr::v4([192, 0, 2, 1]), TCP, &tcp(PORT, SYN)), Clear),
        (
            "a denial of a live pod",
            to(LIVE, TCP, &tcp(PORT, SYN)),
            Pass(Reason::Reused, Outcome::Established),
        ),
    ]);
    rig.remove::<_, Keyed<DenialKey, RawDenial>>("DENIED", &super::world::target(REUSED, UDP));
    rig.expect_all(&[
        ("another protocol", to(REUSED, UDP, &udp(PORT)), not_denied),
        ("the denied one", to(REUSED, TCP, &tcp(PORT, SYN)), DENIED),
    ]);
    rig.remove::<_, Keyed<Vip, ServiceNumber>>("SERVICES", &vip(RETIRED, PORT, SCTP));
    rig.expect_all(&[
        ("a protocol that the Service has not", to(RETIRED, SCTP, &sctp(PORT, 1)), no_intent),
        ("one that it has", to(RETIRED, TCP, &tcp(PORT, SYN)), NO_NEW_FLOW),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_terminating_pod_is_served_and_counted() {
    let draining = Pass(Nothing, Outcome::Draining);
    Rig::new().expect_all(&[
        ("TCP SYN of the Service", to(DRAINING, TCP, &tcp(PORT, SYN)), draining),
        ("direct TCP", to(DRAINING, TCP, &tcp(NO_PORT, SYN)), draining),
        ("UDP", to(DRAINING, UDP, &udp(PORT)), draining),
        ("ICMP", to(DRAINING, ICMP, &[8; 8]), draining),
        ("a later fragment", frame(&v4_with(DRAINING, &[], 0x2001, UDP, &udp(PORT))), draining),
    ]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_without_ports_has_no_intent_and_passes() {
    let no_intent = Pass(Nothing, Outcome::NoIntent);
    Rig::new().expect_all(&[
        ("ICMP echo", to(REUSED, ICMP, &[8, 0, 0, 0, 0, 1, 0, 1]), no_intent),
        ("ICMP without a body", to(REUSED, ICMP, &[]), no_intent),
        ("ICMPv6 echo", to(REUSED_V6, ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1]), no_intent),
        ("GRE", to(REUSED, 47, &[0; 8]), no_intent),
        ("no next header", to(REUSED_V6, 59, &[]), no_intent),
        ("ARP", of_type(&[], 0x0806, &[0; 28]), Clear),
        ("LLDP", of_type(&[], 0x88cc, &[0; 28]), Clear),
        ("802.3 length", of_type(&[], 60, &[0; 60]), Clear),
    ]);
}

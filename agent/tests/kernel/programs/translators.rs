//! What conntrack's entry of a packet shows, and which packets are judged by it.

use super::frames::{ICMP, ICMPV6, SRC_V4, SRC_V6, SYN, TCP, UDP, frame, packet, tcp, udp};
use super::rig::{BOTH, DROP, Rig};
use super::tracked::Tracked;
use super::world::{CLIENT_PORT, DENIED, FRESH, INNOCENT, OTHER_PORT, PORT, REUSED, REUSED_V6, vip};
use epguard_common::Verdict::{self, Clear, Pass};
use epguard_common::{Addr, Outcome, Reason, View};

/// Of `enum ip_conntrack_info`.
const ESTABLISHED: u64 = 0;
const RELATED: u64 = 1;
const NEW: u64 = 2;
const ESTABLISHED_REPLY: u64 = 3;
const RELATED_REPLY: u64 = 4;
const UNTRACKED: u64 = 7;

const UNREADABLE: Verdict = Pass(Reason::Nothing, Outcome::UnreadableConnection);
const NO_CONNECTION: Verdict = Pass(Reason::Nothing, Outcome::NoConnection);
const NO_INTENT: Verdict = Pass(Reason::Nothing, Outcome::NoIntent);

const PODS: [Addr; 2] = [REUSED, REUSED_V6];

pub fn client(pod: Addr) -> Addr {
    if pod.is_v4() { Addr::v4(SRC_V4) } else { Addr::v6(SRC_V6) }
}

/// The entry of the connections to the Service that is denied at the pod.
pub fn of(pod: Addr, protocol: u8) -> Tracked {
    let vip = vip(pod, PORT, protocol);
    Tracked::translated((client(pod), CLIENT_PORT), (vip.addr, PORT), (pod, PORT), protocol)
}

pub fn syn(pod: Addr) -> Vec<u8> {
    frame(&packet(pod, TCP, &tcp(PORT, SYN)))
}

#[track_caller]
fn expect(rig: &mut Rig, name: &str, tracked: Tracked, frame: &[u8], verdict: Verdict) {
    rig.tracked = Some(tracked);
    rig.expect(name, frame, verdict);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_in_the_direction_of_the_client_are_judged_and_replies_are_not() {
    let mut rig = Rig::new();
    for pod in PODS {
        for (info, verdict) in [
            (ESTABLISHED, DENIED),
            (RELATED, DENIED),
            (NEW, DENIED),
            (ESTABLISHED_REPLY, NO_INTENT),
            (RELATED_REPLY, NO_INTENT),
            (UNTRACKED, NO_INTENT),
        ] {
            let tracked = of(pod, TCP).with_info(info);
            expect(&mut rig, &format!("{info}"), tracked, &syn(pod), verdict);
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_without_an_entry_pass() {
    let mut rig = Rig::new();
    let mut template = of(REUSED, TCP);
    template.entry.original.family = 0;
    let mut untracked = Tracked::NONE;
    untracked.reference = UNTRACKED;
    for (name, tracked) in [("none", Tracked::NONE), ("untracked", untracked), ("a template", template)] {
        expect(&mut rig, name, tracked, &syn(REUSED), NO_CONNECTION);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_entry_that_contradicts_its_packet_denies_nothing() {
    let mut rig = Rig::new();
    for pod in PODS {
        let entry = |change: fn(&mut Tracked)| {
            let mut tracked = of(pod, TCP);
            change(&mut tracked);
            tracked
        };
        for (name, tracked) in [
            ("of another endpoint", entry(|of| of.entry.reply.src[0] ^= 1)),
            ("of another port", entry(|of| of.entry.reply.src_port = OTHER_PORT.to_be())),
            ("of another protocol", of(pod, UDP)),
            ("of two protocols", entry(|of| of.entry.reply.protocol = UDP)),
            ("of the other family", entry(|of| of.entry.original.family = 12 - of.entry.original.family)),
            ("of two families", entry(|of| of.entry.reply.family = 12 - of.entry.reply.family)),
            ("of no family", entry(|of| of.entry.original.family = 7)),
        ] {
            expect(&mut rig, name, tracked, &syn(pod), UNREADABLE);
        }
        expect(&mut rig, "its own", of(pod, TCP), &syn(pod), DENIED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_connection_that_was_opened_to_the_pod_itself_has_no_intent() {
    let mut rig = Rig::new();
    for pod in PODS {
        let mut direct = of(pod, TCP);
        direct.entry.original.dst = direct.entry.reply.src;
        expect(&mut rig, "to the pod", direct, &syn(pod), NO_INTENT);
        // Even where the pod's own address is a Service's.
        rig.affect(&epguard_common::Vip { addr: pod, ..vip(pod, PORT, TCP) }, super::world::SHOP);
        expect(&mut rig, "to the pod that is a VIP", direct, &syn(pod), NO_INTENT);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_icmp_error_goes_the_way_of_the_connection_that_it_is_about() {
    let mut rig = Rig::new();
    for (pod, icmp, body) in
        [(REUSED, ICMP, [3, 4, 0, 0, 0, 0, 5, 0]), (REUSED_V6, ICMPV6, [2, 0, 0, 0, 0, 0, 5, 0])]
    {
        let error = frame(&packet(pod, icmp, &body));
        for protocol in [TCP, UDP] {
            let tracked = of(pod, protocol).with_info(RELATED);
            expect(&mut rig, "of a denied connection", tracked, &error, DENIED);
            let established = of(pod, protocol);
            expect(&mut rig, "no error", established, &error, UNREADABLE);
        }
        let vip = vip(pod, OTHER_PORT, TCP);
        let other =
            Tracked::translated((client(pod), CLIENT_PORT), (vip.addr, OTHER_PORT), (pod, OTHER_PORT), TCP);
        let passes = Pass(Reason::Nothing, Outcome::NotDenied);
        expect(&mut rig, "of another port", other.with_info(RELATED), &error, passes);
        let ping = of(pod, icmp);
        expect(&mut rig, "a translated ping", ping, &error, NO_INTENT);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_event_shows_the_client_before_masquerade() {
    let mut rig = Rig::new();
    let real = Addr::v4([10, 244, 7, 7]);
    let vip = vip(REUSED, PORT, TCP);
    rig.tracked = Some(Tracked::translated((real, 5_555), (vip.addr, PORT), (REUSED, PORT), TCP));
    assert_eq!(rig.run(BOTH, &syn(REUSED)).action, DROP);
    let clients: Vec<_> = rig.events().iter().map(|event| (event.src, event.src_port)).collect();
    assert_eq!(clients, [(real, 5_555)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_innocent_packet_is_not_looked_at() {
    let mut rig = Rig::new();
    let contradicted = of(REUSED, TCP);
    expect(&mut rig, "to another pod", contradicted, &syn(INNOCENT), Clear);
    rig.write_view(View { suspects: 0, ..FRESH });
    expect(&mut rig, "no suspects", of(REUSED, TCP), &syn(REUSED), Clear);
    let datagram = frame(&packet(REUSED, UDP, &udp(PORT)));
    rig.write_view(FRESH);
    expect(&mut rig, "suspects", of(REUSED, UDP), &datagram, DENIED);
}

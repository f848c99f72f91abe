//! What conntrack's entry of a packet shows, and which packets are judged by it.

use super::frames::{ICMP, ICMPV6, SRC_V4, SRC_V6, TCP, UDP, frame, packet};
use super::rig::{BOTH, DROP, Rig};
use super::tracked::Tracked;
use super::world::{CLIENT_PORT, DENIED, OTHER_PORT, PORT, REUSED, REUSED_V6, SHOP, syn, vip};
use epguard_common::Verdict::{self, Pass};
use epguard_common::{Addr, Outcome, Reason, Vip};

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

pub fn client(pod: Addr) -> Addr {
    if pod.is_v4() { Addr::v4(SRC_V4) } else { Addr::v6(SRC_V6) }
}

/// The entry of the connections to the Service that is denied at the pod.
pub fn of(pod: Addr, protocol: u8) -> Tracked {
    let vip = vip(pod, PORT, protocol);
    Tracked::translated((client(pod), CLIENT_PORT), (vip.addr, PORT), (pod, PORT), protocol)
}

#[track_caller]
fn expect(rig: &mut Rig, name: &str, tracked: Tracked, frame: &[u8], verdict: Verdict) {
    rig.tracked = Some(tracked);
    rig.expect(name, frame, verdict);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn only_a_packet_of_its_connections_client_is_judged_and_a_contradicting_entry_denies_nothing() {
    let mut rig = Rig::new();
    for (pod, icmp, error) in
        [(REUSED, ICMP, [3, 4, 0, 0, 0, 0, 5, 0]), (REUSED_V6, ICMPV6, [2, 0, 0, 0, 0, 0, 5, 0])]
    {
        // Even where the pod's own address is a Service's.
        rig.affect(&Vip { addr: pod, ..vip(pod, PORT, TCP) }, SHOP);
        let own = of(pod, TCP);
        let but = |change: fn(&mut Tracked)| {
            let mut tracked = own;
            change(&mut tracked);
            tracked
        };
        let untracked = Tracked { reference: UNTRACKED, ..Tracked::NONE };
        let (opening, error) = (syn(pod), frame(&packet(pod, icmp, &error)));
        let other_vip = (vip(pod, OTHER_PORT, TCP).addr, OTHER_PORT);
        let other = Tracked::translated((client(pod), CLIENT_PORT), other_vip, (pod, OTHER_PORT), TCP);
        let not_denied = Pass(Reason::Nothing, Outcome::NotDenied);
        for (name, tracked, frame, verdict) in [
            ("established", own.with_info(ESTABLISHED), &opening, DENIED),
            ("related", own.with_info(RELATED), &opening, DENIED),
            ("new", own.with_info(NEW), &opening, DENIED),
            ("an established reply", own.with_info(ESTABLISHED_REPLY), &opening, NO_INTENT),
            ("a related reply", own.with_info(RELATED_REPLY), &opening, NO_INTENT),
            ("an entry, untracked", own.with_info(UNTRACKED), &opening, NO_INTENT),
            ("no entry", Tracked::NONE, &opening, NO_CONNECTION),
            ("no entry, untracked", untracked, &opening, NO_CONNECTION),
            ("a template", but(|of| of.entry.original.family = 0), &opening, NO_CONNECTION),
            ("of another endpoint", but(|of| of.entry.reply.src[0] ^= 1), &opening, UNREADABLE),
            ("of another port", but(|of| of.entry.reply.src_port = OTHER_PORT.to_be()), &opening, UNREADABLE),
            ("of another protocol", of(pod, UDP), &opening, UNREADABLE),
            ("of two protocols", but(|of| of.entry.reply.protocol = UDP), &opening, UNREADABLE),
            (
                "of the other family",
                but(|of| of.entry.original.family = 12 - of.entry.original.family),
                &opening,
                UNREADABLE,
            ),
            (
                "of two families",
                but(|of| of.entry.reply.family = 12 - of.entry.reply.family),
                &opening,
                UNREADABLE,
            ),
            ("of no family", but(|of| of.entry.original.family = 7), &opening, UNREADABLE),
            ("to the pod itself", but(|of| of.entry.original.dst = of.entry.reply.src), &opening, NO_INTENT),
            ("an error of a denied connection", own.with_info(RELATED), &error, DENIED),
            ("an error of a denied flow of UDP", of(pod, UDP).with_info(RELATED), &error, DENIED),
            ("ICMP in a connection of TCP", own, &error, UNREADABLE),
            ("ICMP in a flow of UDP", of(pod, UDP), &error, UNREADABLE),
            ("an error of another port", other.with_info(RELATED), &error, not_denied),
            ("a translated ping", of(pod, icmp), &error, NO_INTENT),
        ] {
            expect(&mut rig, &format!("{name}: {pod}"), tracked, frame, verdict);
        }
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

//! Which packets are stopped.

use crate::frames::{
    ACK, RST, SCTP, SYN, TCP, UDP, ethernet, ipv4, ipv4_with, ipv6, sctp, tagged, tcp, udp, x4, x6,
};
use crate::kernel::{Kernel, PASS, SHOT};
use epguard_common::Outcome::{Dropped, Established, LeaseExpired, NoIntent, NotDenied, Observed, Off};
use epguard_common::Reason::{Nothing, RetiredBackend, Reused};
use epguard_common::{Config, Denial, Mode, Outcome, Reason, ReasonModes, Suspect, UidState};

type Row<'a> = (&'a str, Vec<u8>, Option<(Reason, Outcome)>);

/// Runs each frame alone; `None`: passed and not even counted.
fn check(kernel: &mut Kernel, rows: &[Row<'_>]) {
    for (name, frame, expected) in rows {
        let before = kernel.counted();
        let (answer, after) = kernel.run("epguard_selftest", frame);
        let mut counted = kernel.counted();
        counted.retain(|row| !before.contains(row));
        let seen: Vec<_> = counted
            .iter()
            .map(|(reason, outcome, _)| (*reason, *outcome))
            .collect();
        assert_eq!(seen, Vec::from_iter(*expected), "{name}: counted");
        let dropped = expected.is_some_and(|(_, outcome)| outcome == Dropped);
        assert_eq!(answer, if dropped { SHOT } else { PASS }, "{name}: verdict");
        assert_eq!(&after, frame, "{name}: the packet is left as it was");
    }
}

const DENIED: Option<(Reason, Outcome)> = Some((Reused, Dropped));
const OTHER: Option<(Reason, Outcome)> = Some((Nothing, NotDenied));
const NONE: Option<(Reason, Outcome)> = Some((Nothing, NoIntent));

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn ipv4_packets_are_judged_by_service_address_port_and_protocol() {
    let mut kernel = Kernel::denying(x4(), Reused, UidState::Dead);
    kernel.serve(x4(), 9090, 6);
    let syn = ipv4(TCP, &tcp(8080, SYN));
    let mut elsewhere = syn.clone();
    elsewhere[33] = 11;
    check(
        &mut kernel,
        &[
            ("SYN", syn.clone(), DENIED),
            ("established", ipv4(TCP, &tcp(8080, ACK)), DENIED),
            ("RST", ipv4(TCP, &tcp(8080, RST)), DENIED),
            ("UDP", ipv4(UDP, &udp(8080)), DENIED),
            ("SCTP INIT", ipv4(SCTP, &sctp(8080, 1)), DENIED),
            ("SCTP DATA", ipv4(SCTP, &sctp(8080, 0)), DENIED),
            ("another port of the Service", ipv4(TCP, &tcp(9090, SYN)), OTHER),
            ("a port of no Service", ipv4(TCP, &tcp(22, SYN)), NONE),
            ("another IP", elsewhere, None),
            ("ICMP", ipv4(1, &[8, 0, 0, 0, 0, 1, 0, 1]), NONE),
            ("ARP", ethernet(0x0806, &[0; 28]), None),
            ("one VLAN tag", tagged(0x8100, &syn), DENIED),
            ("two VLAN tags", tagged(0x88a8, &tagged(0x8100, &syn)), DENIED),
            (
                "three VLAN tags",
                tagged(0x8100, &tagged(0x8100, &tagged(0x8100, &tagged(0x8100, &syn)))),
                None,
            ),
            ("options", ipv4_with(&[1; 40], 0, TCP, &tcp(8080, SYN)), DENIED),
            ("first fragment", ipv4_with(&[], 0x2000, UDP, &udp(8080)), DENIED),
            ("later fragment", ipv4_with(&[], 0x2001, UDP, &udp(8080)), NONE),
        ],
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn ipv6_packets_are_judged_behind_their_extension_headers() {
    let mut kernel = Kernel::denying(x6(), Reused, UidState::Dead);
    let behind = |headers: &[(u8, &[u8])]| {
        let mut next: Vec<u8> = headers
            .iter()
            .skip(1)
            .map(|(kind, _)| *kind)
            .chain([TCP])
            .collect();
        let mut body = Vec::new();
        for (_, rest) in headers {
            body.push(next.remove(0));
            body.extend(*rest);
        }
        body.extend(tcp(8080, SYN));
        ipv6(headers[0].0, &body)
    };
    let eight: &[u8] = &[0, 0, 0, 0, 0, 0, 0];
    let sixteen: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authentication: &[u8] = &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    check(
        &mut kernel,
        &[
            ("SYN", ipv6(TCP, &tcp(8080, SYN)), DENIED),
            ("UDP", ipv6(UDP, &udp(8080)), DENIED),
            ("SCTP INIT", ipv6(SCTP, &sctp(8080, 1)), DENIED),
            ("hop-by-hop", behind(&[(0, eight)]), DENIED),
            ("routing", behind(&[(43, sixteen)]), DENIED),
            ("destination options", behind(&[(60, eight)]), DENIED),
            ("authentication", behind(&[(51, authentication)]), DENIED),
            (
                "four in a row",
                behind(&[(0, eight), (60, sixteen), (43, eight), (51, authentication)]),
                DENIED,
            ),
            ("seven in a row", behind(&[(60, eight); 7]), None),
            ("first fragment", behind(&[(44, &[0, 0, 1, 0, 0, 0, 9])]), DENIED),
            ("later fragment", behind(&[(44, &[0, 0, 9, 0, 0, 0, 9])]), NONE),
            ("ICMPv6", ipv6(58, &[128, 0, 0, 0, 0, 1, 0, 1]), NONE),
            (
                "one VLAN tag",
                tagged(0x8100, &ipv6(TCP, &tcp(8080, SYN))),
                DENIED,
            ),
        ],
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_retired_pod_keeps_its_flows_and_gets_no_new_one() {
    let mut kernel = Kernel::denying(x4(), RetiredBackend, UidState::Retired);
    let denied = Some((RetiredBackend, Dropped));
    let kept = Some((RetiredBackend, Established));
    check(
        &mut kernel,
        &[
            ("SYN", ipv4(TCP, &tcp(8080, SYN)), denied),
            ("SYN and ACK", ipv4(TCP, &tcp(8080, SYN | ACK)), kept),
            ("established", ipv4(TCP, &tcp(8080, ACK)), kept),
            ("UDP", ipv4(UDP, &udp(8080)), kept),
            ("SCTP INIT", ipv4(SCTP, &sctp(8080, 1)), denied),
            ("SCTP DATA", ipv4(SCTP, &sctp(8080, 0)), kept),
        ],
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn modes_and_the_lease_bound_what_is_stopped() {
    let mut kernel = Kernel::denying(x4(), Reused, UidState::Dead);
    let syn = || ipv4(TCP, &tcp(8080, SYN));
    kernel.configure(Mode::Observe);
    check(&mut kernel, &[("observe", syn(), Some((Reused, Observed)))]);
    kernel.configure(Mode::Off);
    check(&mut kernel, &[("off", syn(), None)]);
    kernel.set_config(Config::default());
    check(&mut kernel, &[("all zero", syn(), None)]);
    let only_reused = |mode| ReasonModes {
        reused: mode,
        ..ReasonModes::default()
    };
    kernel.set_config(Config {
        mode: Mode::Enforce,
        reasons: only_reused(Mode::Off),
        ..Config::default()
    });
    check(&mut kernel, &[("the reason is off", syn(), Some((Reused, Off)))]);
    kernel.set_config(Config {
        mode: Mode::Enforce,
        reasons: only_reused(Mode::Observe),
        ..Config::default()
    });
    check(
        &mut kernel,
        &[("the reason observes", syn(), Some((Reused, Observed)))],
    );
    kernel.configure(Mode::Enforce);
    kernel.set_view(1, epguard::datapath::boot_ns());
    check(
        &mut kernel,
        &[("the lease is over", syn(), Some((Reused, LeaseExpired)))],
    );
    kernel.set_view(0, u64::MAX);
    check(&mut kernel, &[("no suspects", syn(), None)]);
    kernel.set_view(1, u64::MAX);
    check(&mut kernel, &[("again", syn(), DENIED)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_denial_goes_no_further_than_its_own_bound() {
    let mut kernel = Kernel::denying(x4(), Reused, UidState::Dead);
    let syn = || ipv4(TCP, &tcp(8080, SYN));
    let proof = (Reused, UidState::Dead);
    for (mode, outcome) in [
        (Mode::Observe, Observed),
        (Mode::Off, Off),
        (Mode::Enforce, Dropped),
    ] {
        kernel.deny_at_most(mode, x4(), 8080, 6, proof);
        check(&mut kernel, &[(mode.as_str(), syn(), Some((Reused, outcome)))]);
    }
    kernel.configure(Mode::Observe);
    check(
        &mut kernel,
        &[("below the operator's mode", syn(), Some((Reused, Observed)))],
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn numbers_that_no_epguard_wrote_deny_nothing() {
    let mut kernel = Kernel::denying(x4(), Reused, UidState::Dead);
    let syn = || ipv4(TCP, &tcp(8080, SYN));
    kernel.scribble("CONFIG", &[0; 4], &[9; 28]);
    check(&mut kernel, &[("an absurd mode", syn(), None)]);
    kernel.configure(Mode::Enforce);
    let mut target = x4().octets.to_vec();
    target.extend(0x8001u16.to_ne_bytes());
    target.extend(8080u16.to_ne_bytes());
    target.extend([6, 0, 0, 0]);
    kernel.scribble("DENIED", &target, &[9; size_of::<Denial>()]);
    check(&mut kernel, &[("an absurd denial", syn(), OTHER)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_terminating_pod_passes_and_is_counted() {
    let mut kernel = Kernel::new();
    kernel.suspect(x4(), Suspect::DRAINING);
    kernel.serve(x4(), 8080, 6);
    let draining = Some((Nothing, Outcome::Draining));
    check(
        &mut kernel,
        &[
            ("aimed at its Service", ipv4(TCP, &tcp(8080, SYN)), draining),
            ("direct", ipv4(TCP, &tcp(22, SYN)), draining),
        ],
    );
    let later = ipv4_with(&[], 0x2001, UDP, &udp(8080));
    check(&mut kernel, &[("later fragment", later, draining)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn truncated_frames_pass_untouched_at_every_length() {
    let mut kernel = Kernel::denying(x4(), Reused, UidState::Dead);
    kernel.suspect(x6(), Suspect::DENIED);
    kernel.serve(x6(), 8080, 6);
    kernel.deny(x6(), 8080, 6, Reused, UidState::Dead);
    let v4 = ipv4_with(&[1; 8], 0, TCP, &tcp(8080, SYN));
    let v6 = ipv6(TCP, &tcp(8080, SYN));
    // A test run refuses frames that end within a fixed IP header; tests of the parser cover those.
    for (frame, shortest, needed) in [(v4, 14 + 20, 14 + 28 + 14), (v6, 14 + 40, 14 + 40 + 14)] {
        for length in shortest..=frame.len() {
            let (answer, after) = kernel.run("epguard_selftest", &frame[..length]);
            assert_eq!(
                answer,
                if length < needed { PASS } else { SHOT },
                "{length} octets"
            );
            assert_eq!(after, frame[..length], "{length} octets");
        }
    }
}

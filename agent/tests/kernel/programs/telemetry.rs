//! Counters and events: exact, complete, and without a say in the verdict.

use super::*;
use epguard::daemon::report::ring_buffer::MOST;
use epguard::shared::clock::boot_ns;
use std::time::Duration;

const BURST: u32 = 150;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_event_names_the_packet_the_service_both_pods_and_the_client_before_masquerade() {
    let mut rig = Rig::new();
    let before = boot_ns();
    let frames = [
        (syn(REUSED), Addr::v4(SRC_V4), REUSED, TCP),
        (
            frame(&packet(REUSED_V6, UDP, &udp(PORT))),
            Addr::v6(SRC_V6),
            REUSED_V6,
            UDP,
        ),
    ];
    for mode in [Mode::Enforce, Mode::Observe] {
        rig.configure(Config { mode, ..ENFORCE });
        for (frame, src, dst, protocol) in &frames {
            rig.run(BOTH, frame);
            let events = rig.events();
            let [event] = events.as_slice() else {
                panic!("one packet, {} events", events.len());
            };
            assert!(
                (before..=boot_ns()).contains(&event.at_ns),
                "CLOCK_BOOTTIME"
            );
            let outcome = match mode {
                Mode::Enforce => Outcome::Dropped,
                _ => Outcome::Observed,
            };
            let expected = Event {
                at_ns: event.at_ns,
                dead_uid: DEAD_UID,
                owner_uid: OWNER_UID,
                src: *src,
                dst: *dst,
                reason: Reason::Reused as u32,
                outcome: outcome as u32,
                ifindex: 1, // test runs are on the loopback interface
                length: u32::try_from(frame.len()).unwrap(),
                src_port: 40_000,
                dst_port: PORT,
                service: SHOP,
                protocol: *protocol,
                reserved: [0; 7],
            };
            assert_eq!(*event, expected);
        }
    }
    let real = Addr::v4([10, 244, 7, 7]);
    let vip = vip(REUSED, PORT, TCP);
    rig.tracked = Some(Tracked::translated(
        (real, 5_555),
        (vip.addr, PORT),
        (REUSED, PORT),
        TCP,
    ));
    rig.run(BOTH, &syn(REUSED));
    let clients: Vec<_> = rig
        .events()
        .iter()
        .map(|event| (event.src, event.src_port))
        .collect();
    assert_eq!(clients, [(real, 5_555)]);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_passes_sends_no_event() {
    let mut rig = Rig::new();
    for hook in ["epguard_from", "epguard_to"] {
        for addr in [REUSED, REUSED_V6, DRAINING] {
            assert_eq!(
                rig.run(hook, &syn(addr)).action,
                PASS,
                "{hook}: no translator knows {addr}"
            );
        }
    }
    rig.run(BOTH, &frame(&packet(RETIRED, TCP, &tcp(PORT, 0))));
    rig.run(BOTH, &frame(&packet(REUSED, TCP, &tcp(OTHER_PORT, SYN))));
    rig.run(BOTH, &syn(DRAINING));
    rig.write_view(View {
        lease_deadline_ns: 0,
        ..FRESH
    });
    rig.run(BOTH, &syn(REUSED));
    assert_eq!(rig.events(), []);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn beyond_a_suspects_rate_events_are_suppressed_and_verdicts_stay() {
    let mut rig = Rig::new();
    let ran = rig.repeat(BOTH, &syn(REUSED), [0; 192], BURST);
    assert_eq!(ran.action, DROP);
    assert_eq!(rig.events().len(), Rate::EVENTS_PER_SECOND as usize);
    let bytes = u64::from(BURST) * syn(REUSED).len() as u64;
    let suppressed = u64::from(BURST - Rate::EVENTS_PER_SECOND);
    let expected = [
        ((Reason::Reused, Outcome::Dropped), (BURST.into(), bytes)),
        ((Reason::Reused, Outcome::EventSuppressed), (suppressed, 0)),
    ];
    assert_eq!(rig.counters(), expected.into());

    rig.expect("another suspect's rate is its own", &syn(REUSED_V6), DENIED);
    assert_eq!(rig.events().len(), 1);
    let a_second_ago = boot_ns() - 1_100_000_000;
    rig.put_keyed(
        "SUSPECTS",
        &REUSED,
        Suspect {
            rate: Rate {
                window_ns: a_second_ago,
                events: BURST,
                ..Rate::default()
            },
            ..suspect(Suspect::DENIED)
        },
    );
    rig.expect("the next second", &syn(REUSED), DENIED);
    assert_eq!(rig.events().len(), 1);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_full_ring_loses_events_and_no_verdict() {
    let mut rig = Rig::new();
    let (packets, room) = fill_ring(&mut rig);
    let lost = packets - room as u64;
    let expected = [
        (
            (Reason::Reused, Outcome::Dropped),
            (packets, packets * syn(REUSED).len() as u64),
        ),
        ((Reason::Reused, Outcome::EventLost), (lost, 0)),
    ];
    assert_eq!(rig.counters(), expected.into());
    assert_eq!(rig.events().len(), room);
}

/// Has more packets denied than there is room for events; both numbers.
fn fill_ring(rig: &mut Rig) -> (u64, usize) {
    let suspects = 30;
    for host in 1..=suspects {
        let addr = Addr::v4([10, 244, 9, host]);
        rig.put_keyed("SUSPECTS", &addr, suspect(Suspect::DENIED));
        rig.affect(&vip(addr, PORT, TCP), SHOP);
        rig.deny(&target(addr, TCP), denial(Reason::Reused, UidState::Dead));
        let ran = rig.repeat(BOTH, &syn(addr), [0; 192], Rate::EVENTS_PER_SECOND);
        assert_eq!(ran.action, DROP);
    }
    let room = capacity::EVENTS / (size_of::<Event>() + RECORD_HEADER);
    (
        u64::from(suspects) * u64::from(Rate::EVENTS_PER_SECOND),
        room,
    )
}

#[tokio::test]
#[ignore = "needs root: loads eBPF programs"]
async fn a_full_ring_is_read_to_its_end_a_part_at_a_time() {
    let mut rig = Rig::new();
    let room = fill_ring(&mut rig).1;
    let mut events = rig.reader();
    let mut parts = Vec::new();
    while parts.iter().sum::<usize>() < room {
        let next = tokio::time::timeout(Duration::from_mins(1), events.next()).await;
        parts.push(next.expect("more are there").unwrap().len());
    }
    assert!(
        parts.len() > 1 && parts.iter().all(|part| *part <= MOST),
        "{parts:?}"
    );
    let next = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(next.is_err(), "nothing is left");
    rig.run(BOTH, &syn(REUSED));
    let next = tokio::time::timeout(Duration::from_mins(1), events.next()).await;
    assert_eq!(next.expect("a new one wakes the reader").unwrap().len(), 1);
}

/// Of each record in a ring buffer (`BPF_RINGBUF_HDR_SZ`).
const RECORD_HEADER: usize = 8;

//! Flows that were redirected before: which packets belong to them.

use super::*;
use nix::net::if_::if_nametoindex;

const LOOPBACK: u32 = 1;

const LIVE: Backend = Backend {
    addr: Addr::v4([10, 244, 1, 99]),
    uid: OWNER_UID,
    port: PORT,
    reserved: 0,
};

/// As the client's side knows it.
fn flow(protocol: u8) -> Flow {
    Flow {
        client: Addr::v4(SRC_V4),
        endpoint: REUSED,
        client_port: 40_000,
        endpoint_port: PORT,
        protocol,
        reserved: [0; 3],
    }
}

/// To an endpoint that lives.
fn redirected(protocol: u8, flags: u32) -> Redirected {
    Redirected {
        backend: LIVE,
        vip: vip(REUSED, PORT, protocol),
        flags,
        ..Redirected::default()
    }
}

/// One flow of each protocol is redirected. Packets leave by the interface `pod`, to which the node
/// routes the denied endpoint.
fn rig(flags: u32) -> Rig {
    direct::node(&[
        "link set lo up",
        "link add pod type veth peer name peer",
        "link set pod up",
        "link set peer up",
        "route add 10.244.1.10 dev pod",
        "route add 10.244.2.2 dev lo",
    ]);
    let mut rig = Rig::new();
    rig.ifindex = if_nametoindex("pod").unwrap();
    for ifindex in [LOOPBACK, rig.ifindex] {
        rig.put_keyed(
            "INTERFACES",
            &ifindex,
            RawRole {
                number: RawRole::TAKES_ANSWERS,
            },
        );
    }
    let owner = Owner {
        uid: LIVE.uid,
        ..Owner::default()
    };
    rig.put("OWNERS", &LIVE.addr, owner);
    for protocol in [TCP, UDP] {
        rig.put_keyed("FLOWS", &flow(protocol), redirected(protocol, flags));
    }
    rig.write_view(View { flows: 2, ..FRESH });
    rig
}

/// Whether the packet counts as one of a redirected flow. The lab tests where it goes: loopback
/// leads nowhere.
fn is_redirected(rig: &mut Rig, ip: &[u8]) -> bool {
    rig.forget_counters();
    rig.run(BOTH, &frame(ip));
    rig.counters()
        .contains_key(&(Reason::Nothing, Outcome::Redirected))
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_flow_stays_redirected_while_its_endpoint_holds_its_ip_and_its_addresses_are_not_taken() {
    const MORE_FRAGMENTS: u16 = 0x2000;
    let ack = packet(REUSED, TCP, &tcp(PORT, ACK));
    let datagram = packet(REUSED, UDP, &udp(PORT));
    let first = v4_with(REUSED, &[], MORE_FRAGMENTS, UDP, &udp(PORT));
    for (name, flags, ip, expected) in [
        ("TCP", 0, &ack, true),
        ("UDP", 0, &datagram, true),
        ("a first fragment", 0, &first, false),
        (
            "the addresses are taken",
            Redirected::TAKEN,
            &datagram,
            false,
        ),
    ] {
        assert_eq!(is_redirected(&mut rig(flags), ip), expected, "{name}");
    }
    let mut rig = rig(0);
    let successor = Owner {
        uid: DEAD_UID,
        ..Owner::default()
    };
    rig.put("OWNERS", &LIVE.addr, successor);
    assert!(!is_redirected(&mut rig, &ack), "the IP has another owner");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_new_flow_from_the_port_of_a_closed_one_is_not_redirected_with_it() {
    let mut rig = rig(Redirected::CLIENT_CLOSED);
    let syn = packet(REUSED, TCP, &tcp(PORT, SYN));
    let ack = packet(REUSED, TCP, &tcp(PORT, ACK));
    assert!(
        is_redirected(&mut rig, &ack),
        "the last flow is not yet over"
    );
    assert!(!is_redirected(&mut rig, &syn));
    assert!(!is_redirected(&mut rig, &ack), "of the new flow");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn answers_are_translated_back_only_while_their_flow_is_redirected() {
    let mut rig = rig(0);
    rig.ifindex = LOOPBACK;
    let back = Flow {
        client: REUSED,
        endpoint: Addr::v4(SRC_V4),
        client_port: PORT,
        endpoint_port: 40_000,
        ..flow(TCP)
    };
    let target = Return {
        target: Addr::v4([10, 244, 1, 98]),
        ifindex: LOOPBACK,
        target_port: PORT,
        reserved: 0,
        ethernet: [0; 6],
    };
    rig.put_keyed("RETURNS", &back, target);
    let redirected_to = |port| Redirected {
        backend: Backend {
            addr: back.endpoint,
            port,
            ..LIVE
        },
        flags: Redirected::ANSWERED,
        ..Redirected::default()
    };
    rig.put_keyed(
        "FLOWS",
        &back.with_denied_endpoint(&target),
        redirected_to(back.endpoint_port),
    );
    let answer = frame(&packet(REUSED, TCP, &tcp(PORT, ACK)));
    let goes_on = |rig: &mut Rig, config: Config, view: View| {
        rig.configure(config);
        rig.write_view(view);
        let ran = rig.run("epguard_from", &answer);
        assert_eq!(
            ran.action == PASS,
            ran.frame == answer,
            "{config:?}, {view:?}"
        );
        ran.action == PASS
    };
    let flows = View { flows: 2, ..FRESH };
    let off = Config {
        mode: Mode::Off,
        ..ENFORCE
    };
    let expired = View {
        lease_deadline_ns: 1,
        ..flows
    };
    assert!(!goes_on(&mut rig, ENFORCE, flows), "led back");
    assert!(goes_on(&mut rig, off, flows), "switched off");
    assert!(goes_on(&mut rig, ENFORCE, expired), "past the lease");
    rig.put_keyed(
        "FLOWS",
        &back.with_denied_endpoint(&target),
        redirected_to(1),
    );
    assert!(
        goes_on(&mut rig, ENFORCE, flows),
        "the flow goes elsewhere by now"
    );
    // The endpoint has answered no SYN of the flow, so the packet is one of an older connection.
    let opening = Redirected {
        flags: 0,
        ..redirected_to(back.endpoint_port)
    };
    rig.put_keyed("FLOWS", &back.with_denied_endpoint(&target), opening);
    assert!(goes_on(&mut rig, ENFORCE, flows), "of another connection");
    let taken: Redirected = rig
        .get_keyed("FLOWS", &back.with_denied_endpoint(&target))
        .unwrap();
    assert_eq!(taken.flags, Redirected::TAKEN);
    let answered = Redirected {
        flags: Redirected::ANSWERED | Redirected::TAKEN,
        ..opening
    };
    rig.put_keyed("FLOWS", &back.with_denied_endpoint(&target), answered);
    assert!(goes_on(&mut rig, ENFORCE, flows), "the addresses are taken");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_flow_ends_whose_answers_would_enter_beside_the_program_of_another_project() {
    let mut rig = rig(0);
    let ack = frame(&packet(REUSED, TCP, &tcp(PORT, ACK)));
    assert!(is_redirected(
        &mut rig,
        &packet(REUSED, TCP, &tcp(PORT, ACK))
    ));
    let beside = RawRole::from(Role::Pod);
    rig.put_keyed("INTERFACES", &rig.ifindex.clone(), beside);
    rig.forget_counters();
    assert_eq!(rig.run(BOTH, &ack).action, DROP);
    assert_eq!(
        rig.counters()[&(Reason::Nothing, Outcome::RedirectFailed)].0,
        1
    );
    let flow: Redirected = rig.get_keyed("FLOWS", &flow(TCP)).unwrap();
    assert_eq!(flow.flags, Redirected::TAKEN, "its next packet is refused");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_reply_that_enters_where_the_node_does_not_route_the_endpoint_is_not_translated() {
    let mut rig = rig(Redirected::ANSWERED);
    rig.ifindex = LOOPBACK;
    let target = Return {
        target: REUSED,
        ifindex: 1,
        target_port: PORT,
        reserved: 0,
        ethernet: [0; 6],
    };
    rig.put_keyed("RETURNS", &flow(UDP).with_live_endpoint(&LIVE), target);
    let mut forged = packet(Addr::v4(SRC_V4), UDP, &udp(40_000));
    forged[12..16].copy_from_slice(&LIVE.addr.octets[12..]);
    forged[20..22].copy_from_slice(&PORT.to_be_bytes());
    let forged = frame(&forged);
    let ran = rig.run("epguard_from", &forged);
    assert_eq!(
        (ran.action, ran.frame),
        (PASS, forged),
        "no route leads to loopback"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_entry_of_another_flow_redirects_no_packet() {
    let mut rig = rig(0);
    let ack = packet(REUSED, TCP, &tcp(PORT, ACK));
    assert!(is_redirected(&mut rig, &ack), "its own");
    let key = flow(UDP);
    let value = Redirected {
        backend: LIVE,
        ..Redirected::default()
    };
    rig.put("FLOWS", &flow(TCP), Keyed { key, value });
    assert!(!is_redirected(&mut rig, &ack), "another's");
}

/// The TCP flow of one client has just proven its handshake: its next packet brings it to FLOWS, if
/// there is room.
fn rig_with_an_opening_flow() -> Rig {
    let mut rig = rig(0);
    rig.remove::<Flow, Keyed<Flow, Redirected>>("FLOWS", &flow(TCP));
    rig.put_keyed("OPENING", &flow(TCP), redirected(TCP, Redirected::PROVEN));
    rig.forget_counters();
    rig
}

fn is_in(rig: &mut Rig, map: &str) -> bool {
    rig.get_keyed::<Flow, Redirected>(map, &flow(TCP)).is_some()
}

fn beyond(rig: &mut Rig) -> u64 {
    let counters = rig.counters();
    counters
        .get(&(Reason::Nothing, Outcome::BeyondShare))
        .map_or(0, |(packets, _)| *packets)
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_flow_beyond_its_clients_share_stays_in_the_evictable_table_and_is_counted_once() {
    let mut rig = rig_with_an_opening_flow();
    let ack = frame(&packet(REUSED, TCP, &tcp(PORT, ACK)));
    rig.put("CLIENTS", &flow(TCP).client, capacity::FLOWS_PER_CLIENT);
    for _ in 0..3 {
        rig.run(BOTH, &ack);
        assert!(is_in(&mut rig, "OPENING") && !is_in(&mut rig, "FLOWS"));
        assert_eq!(beyond(&mut rig), 1);
    }
    // One of the client's flows has ended.
    rig.put("CLIENTS", &flow(TCP).client, capacity::FLOWS_PER_CLIENT - 1);
    rig.run(BOTH, &ack);
    assert!(is_in(&mut rig, "FLOWS") && !is_in(&mut rig, "OPENING"));
    assert_eq!(
        rig.get("CLIENTS", &flow(TCP).client),
        Some(capacity::FLOWS_PER_CLIENT)
    );
    // Another client at its share takes no room from this one.
    let mut rig = rig_with_an_opening_flow();
    rig.put("CLIENTS", &INNOCENT, capacity::FLOWS_PER_CLIENT);
    rig.run(BOTH, &ack);
    assert!(is_in(&mut rig, "FLOWS") && !is_in(&mut rig, "OPENING"));
    assert_eq!(rig.get("CLIENTS", &flow(TCP).client), Some(1_u32));
    assert_eq!(
        rig.get("CLIENTS", &INNOCENT),
        Some(capacity::FLOWS_PER_CLIENT)
    );
    assert_eq!(beyond(&mut rig), 0);
}

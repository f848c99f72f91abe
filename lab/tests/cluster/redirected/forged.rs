//! Another pod forges packets of a redirected connection. The connection goes on undisturbed.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::thread::{self, sleep};
use std::time::Duration;

use super::place::{ANNOTATION, ON_A_BRIDGE, address, call, connect, echo, stage, stage_with};
use crate::stage::{netns, take_any_source, v4, vip};
use epguard::kernel::maps::{self, KeyedMap};
use epguard_common::{Flow, Outcome, Redirected};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::traffic::{Client, Forged};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn forged_packets_close_evict_and_open_no_redirected_connection_of_another_pod() {
    let stage = stage();
    take_any_source(&stage);
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    let mut victim = connect(&stage, "old/web").unwrap();
    call(&mut victim).unwrap();
    let client = v4(victim.local_addr().unwrap());
    let live = v4(address(&stage, "L"));
    let service = v4(vip(&stage, "old/web"));
    // The victim's delayed ACK of the answer is redirected too.
    sleep(Duration::from_millis(100));
    let before = proven(&stage, client);
    let counted = stage.counters().unwrap();
    let other = SocketAddrV4::new(*client.ip(), 45_123);
    let forged = [
        // From the endpoint, and from the client to the endpoint itself: the client's own packets
        // would end the flow.
        (live, client, FIN | ACK),
        (live, client, RST),
        (client, live, ACK),
        // From the client.
        (client, service, FIN | ACK),
        (client, service, RST),
        (other, service, SYN),
    ];
    let forged = forged.map(|(from, to, flags)| Forged {
        from,
        to,
        flags,
        acknowledges: 7,
    });
    let attacker = Client::new(netns(&stage, "C"));
    attacker.forge(forged).unwrap();
    // The hooks handle them within the attacker's system calls.
    sleep(Duration::from_millis(50));
    let after = proven(&stage, client);
    assert_eq!(
        after.flags, before.flags,
        "the forged packets changed the flow"
    );
    let counted = stage.counters().unwrap().since(&counted);
    assert_eq!(
        counted.with_outcome(Outcome::RedirectRefused),
        1,
        "the SYN\n{counted}"
    );
    let opening = entries(&stage, "OPENING");
    assert!(
        opening
            .iter()
            .all(|(flow, _)| flow.client_port != other.port()),
        "a forged SYN was redirected: {opening:?}"
    );
    call(&mut victim).unwrap();
    // Its own FIN ends the flow.
    victim.shutdown(std::net::Shutdown::Write).unwrap();
    sleep(Duration::from_millis(50));
    let closed = entries(&stage, "FLOWS")
        .into_iter()
        .chain(entries(&stage, "OPENING"));
    let closed = closed.filter(|(flow, _)| flow.client_port == client.port());
    assert!(
        closed
            .into_iter()
            .any(|(_, redirected)| redirected.flags & Redirected::CLIENT_CLOSED != 0)
    );
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_datagram_that_another_pod_forges_is_no_reply_of_a_redirected_flow() {
    let udp = (ANNOTATION, &*format!(", protocols: [tcp, udp]{ANNOTATION}"));
    for (name, changes) in [
        ("a pod's interface", &[udp][..]),
        ("the uplink", &[udp, ("L: {", "L: {node: node-b, ")]),
        ("a bridge", &[udp, ON_A_BRIDGE]),
    ] {
        let stage = stage_with(changes);
        let live = address(&stage, "L");
        let in_pod = |pod: &str, at: SocketAddr| {
            netns(&stage, pod)
                .run(|| UdpSocket::bind(at))
                .unwrap()
                .unwrap()
        };
        let server = in_pod("L", live);
        thread::spawn(move || {
            let mut chunk = [0; 16];
            while let Ok((length, from)) = server.recv_from(&mut chunk) {
                let _ = server.send_to(&chunk[..length], from);
            }
        });
        let client = in_pod("client", SocketAddr::new(address(&stage, "client").ip(), 0));
        client.connect(vip(&stage, "old/web")).unwrap();
        let call = |expected: &[u8]| {
            client
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            client.send(b"hello").unwrap();
            let mut answer = [0; 16];
            let length = client.recv(&mut answer).unwrap();
            assert_eq!(&answer[..length], expected, "{name}");
        };
        call(b"hello");
        // On a bridge, pods can forge each other's addresses, with epguard and without it.
        if name != "a bridge" {
            netns(&stage, "C")
                .ip(&[format!("addr add {} dev lo", live.ip())])
                .unwrap();
            let forged = in_pod("C", live);
            forged
                .send_to(b"forged", client.local_addr().unwrap())
                .unwrap();
            sleep(Duration::from_millis(50));
        }
        call(b"hello");
    }
}

/// The victim's flow in FLOWS.
fn proven(stage: &Stage, client: SocketAddrV4) -> Redirected {
    let flows = entries(stage, "FLOWS");
    let found = flows
        .iter()
        .find(|(flow, _)| flow.client_port == client.port());
    found
        .unwrap_or_else(|| panic!("no flow of {client} in {flows:?}"))
        .1
}

fn entries(stage: &Stage, map: &str) -> Vec<(Flow, Redirected)> {
    let map = maps::open::<KeyedMap<Flow, Redirected>>(&stage.agent.pin_dir, map).unwrap();
    map.entries().unwrap()
}

//! Packets of sockets that were connected before the denial, and of calls that wait.

use super::calls::rig;
use super::*;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

/// An octet arrives within a minute.
fn reads_one(server: &mut TcpStream) {
    server.set_nonblocking(false).unwrap();
    server
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 1);
}

/// The next octet that the client sends ends its connection with a reset.
fn is_reset(client: &mut TcpStream) {
    client.write_all(b"x").unwrap();
    client
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_connection_from_before_the_denial_ends_with_a_reset() {
    let (stranger, at, mut rig) = rig();
    rig.act(Action::Reject);
    let mut denied = rig.in_pod(|| TcpStream::connect(VIP)).unwrap();
    let mut other = rig.in_pod(|| TcpStream::connect(OTHER_VIP)).unwrap();
    let mut direct = rig.in_pod(|| TcpStream::connect(at)).unwrap();
    let servers: Vec<_> = (0..3).map(|_| stranger.tcp.accept().unwrap().0).collect();
    rig.deny(at, UidState::Dead, None);
    is_reset(&mut denied);
    assert_eq!(rig.count(Reason::Reused, Outcome::Rejected).packets, 1);
    for mine in [&mut other, &mut direct] {
        mine.write_all(b"x").unwrap();
    }
    for mut server in servers.into_iter().skip(1) {
        reads_one(&mut server);
    }
    assert_eq!(
        rig.count(Reason::Reused, Outcome::Rejected).packets,
        1,
        "only the denied one"
    );
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn connections_from_before_the_hooks_missed_calls_pass_and_new_ones_are_denied() {
    let (stranger, at, mut rig) = rig();
    let mut old = rig.in_pod(|| TcpStream::connect(VIP)).unwrap();
    let mut server = stranger.tcp.accept().unwrap().0;
    rig.writer.view.judge_by_socket(false, Some(false)).unwrap();
    rig.writer.view.judge_by_socket(true, Some(true)).unwrap();
    let mut new = rig.in_pod(|| TcpStream::connect(VIP)).unwrap();
    rig.act(Action::Reject);
    rig.deny(at, UidState::Dead, None);
    old.write_all(b"x").unwrap();
    reads_one(&mut server);
    assert!(rig.count(Reason::Nothing, Outcome::UnknownSocket).packets >= 1);
    is_reset(&mut new);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_socket_whose_next_call_only_the_first_hook_saw_is_not_denied() {
    let (stranger, at, mut rig) = rig();
    let socket = rig.in_pod(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.connect(VIP).unwrap();
        socket
    });
    std::thread::sleep(Duration::from_secs(5));
    rig.sever("epguard_after_connect4");
    rig.in_pod(|| socket.connect(OTHER_VIP)).unwrap();
    rig.deny(at, UidState::Dead, None);
    socket.send(b"x").unwrap();
    until("not the datagrams that should be there", || {
        stranger.datagrams() == 1
    });
    assert_eq!(rig.count(Reason::Reused, Outcome::Dropped).packets, 0);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_connection_to_a_retired_pod_goes_on_and_no_new_one_opens() {
    let (stranger, at, mut rig) = rig();
    rig.act(Action::Reject);
    let mut old = rig.in_pod(|| TcpStream::connect(VIP)).unwrap();
    let (mut server, _) = stranger.tcp.accept().unwrap();
    rig.deny(at, UidState::Retired, None);
    old.write_all(b"x").unwrap();
    reads_one(&mut server);
    assert!(rig.in_pod(|| TcpStream::connect(VIP)).is_err());
    assert!(rig.count(Reason::Reused, Outcome::Established).packets > 0);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_dropped_call_waits_and_its_packets_are_dropped() {
    let (stranger, at, mut rig) = rig();
    rig.deny(at, UidState::Dead, None);
    let error = rig
        .in_pod(|| TcpStream::connect_timeout(&VIP.into(), Duration::from_millis(300)))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(stranger.connections(), 0);
    let dropped = rig.count(Reason::Reused, Outcome::Dropped);
    assert!(
        dropped.packets >= 1 && dropped.openings == dropped.packets,
        "{dropped:?}"
    );
    assert_eq!(
        rig.count(Reason::Nothing, Outcome::RefusedUnseen).packets,
        0
    );
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn datagrams_of_a_socket_connected_before_the_denial_are_dropped() {
    let (stranger, at, mut rig) = rig();
    let connected = |to| {
        move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            // Bound: it counts once what it may have sent before has left.
            socket.connect(to).unwrap();
            socket
        }
    };
    let [denied, other, both] = [VIP, OTHER_VIP, VIP].map(|to| rig.in_pod(connected(to)));
    rig.deny(at, UidState::Dead, None);
    denied.send(b"x").unwrap();
    until("not the datagrams that should be there", || {
        stranger.datagrams() == 1
    });
    assert_eq!(
        rig.count(Reason::Reused, Outcome::Dropped).packets,
        0,
        "in doubt it passes"
    );
    both.send_to(b"x", OTHER_VIP).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    denied.send(b"x").unwrap();
    until("it is not counted", || {
        rig.count(Reason::Reused, Outcome::Dropped).packets == 1
    });
    other.send(b"x").unwrap();
    both.send(b"x").unwrap();
    until("not the datagrams that should be there", || {
        stranger.datagrams() == 0
    });
    assert_eq!(rig.count(Reason::Reused, Outcome::Dropped).packets, 1);
}

//! Calls that are refused, redirected, or let pass.

use super::*;
use crate::series;
use std::io::ErrorKind;
use std::net::{
    Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, UdpSocket,
};

/// The pod that has the IP now, with a server for each protocol at one port.
pub struct Stranger {
    pub tcp: TcpListener,
    pub udp: UdpSocket,
}

impl Stranger {
    pub fn new() -> (Self, SocketAddrV4) {
        loop {
            let tcp = TcpListener::bind((OWN, 0)).unwrap();
            let SocketAddr::V4(at) = tcp.local_addr().unwrap() else {
                unreachable!("bound to IPv4")
            };
            if let Ok(udp) = UdpSocket::bind(at) {
                tcp.set_nonblocking(true).unwrap();
                udp.set_nonblocking(true).unwrap();
                return (Self { tcp, udp }, at);
            }
        }
    }

    pub fn connections(&self) -> usize {
        std::iter::from_fn(|| self.tcp.accept().ok()).count()
    }

    pub fn datagrams(&self) -> usize {
        std::iter::from_fn(|| self.udp.recv(&mut [0; 64]).ok()).count()
    }
}

/// A load balancer that sends both Services to the stranger.
pub fn rig() -> (Stranger, SocketAddrV4, Rig) {
    let node = Node::new();
    let (stranger, at) = Stranger::new();
    (stranger, at, Rig::on(node, at))
}

/// The same, and the Service's endpoint is dead.
fn denying(action: Action) -> (Stranger, SocketAddrV4, Rig) {
    let (stranger, at, mut rig) = rig();
    rig.act(action);
    rig.deny(at, UidState::Dead, None);
    (stranger, at, rig)
}

/// From Linux 6.1 on a program chooses the error of the call.
fn refused<T>(result: std::io::Result<T>) -> bool {
    let expected = if series() < (6, 1) {
        ErrorKind::PermissionDenied
    } else {
        ErrorKind::ConnectionRefused
    };
    result.is_err_and(|error| error.kind() == expected)
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn only_a_call_to_the_denied_service_is_refused_also_of_the_node_and_until_the_lease_has_ended() {
    let (stranger, at, mut rig) = rig();
    rig.act(Action::Reject);
    let before = rig.in_pod(|| TcpStream::connect(VIP));
    assert_eq!(stranger.connections(), 1, "nothing is denied");
    rig.deny(at, UidState::Dead, None);
    assert!(refused(rig.in_pod(|| TcpStream::connect(VIP))));
    assert_eq!(stranger.connections(), 0, "no packet arrived");
    assert_eq!(rig.count(Reason::Reused, Outcome::Rejected).openings, 1);
    assert!(rig.in_pod(|| TcpStream::connect(OTHER_VIP)).is_ok());
    assert!(rig.in_pod(|| TcpStream::connect(at)).is_ok());
    assert_eq!(stranger.connections(), 2, "its own clients");
    assert!(
        refused(inside(&rig.root, || TcpStream::connect(VIP))),
        "of the node"
    );
    assert_eq!(stranger.connections(), 0);
    rig.writer.view.renew_lease(1).unwrap();
    assert!(
        rig.in_pod(|| TcpStream::connect(VIP)).is_ok(),
        "the lease has ended"
    );
    assert_eq!(stranger.connections(), 1);
    assert!(rig.count(Reason::Reused, Outcome::LeaseExpired).packets > 0);
    drop(before);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn datagrams_and_calls_with_a_v4_mapped_address_are_refused_and_datagrams_to_another_service_arrive()
 {
    let (stranger, at, rig) = denying(Action::Reject);
    rig.in_pod(|| {
        let mapped = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        assert!(refused(TcpStream::connect(mapped_of(VIP))));
        assert!(refused(mapped.send_to(b"x", mapped_of(VIP))));
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        assert!(refused(socket.send_to(b"x", VIP)));
        socket.send_to(b"x", OTHER_VIP).unwrap();
        socket.send_to(b"x", at).unwrap();
        assert!(refused(socket.connect(VIP)));
    });
    assert_eq!((stranger.connections(), stranger.datagrams()), (0, 2));
}

fn mapped_of(vip: SocketAddrV4) -> SocketAddrV6 {
    SocketAddrV6::new(vip.ip().to_ipv6_mapped(), vip.port(), 0, 0)
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_call_goes_to_the_live_endpoint_and_a_datagram_is_refused() {
    let (stranger, at, mut rig) = rig();
    let (live, live_at) = Stranger::new();
    rig.act(Action::Redirect);
    rig.deny(at, UidState::Dead, Some(live_at));
    for _ in 0..5 {
        rig.in_pod(|| TcpStream::connect(VIP)).unwrap();
    }
    assert!(refused(rig.in_pod(|| {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.send_to(b"x", VIP)
    })));
    assert_eq!((stranger.connections(), live.connections()), (0, 5));
    assert_eq!(rig.count(Reason::Reused, Outcome::Redirected).openings, 5);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_dropped_connect_of_udp_and_any_call_where_not_all_interfaces_are_hooked_are_refused() {
    let (stranger, _, mut rig) = denying(Action::Drop);
    rig.in_pod(|| {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        assert!(refused(socket.connect(mapped_of(VIP))));
        socket.connect(mapped_of(OTHER_VIP)).unwrap();
        socket.send(b"x").unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        assert!(refused(socket.connect(VIP)));
    });
    assert_eq!(stranger.datagrams(), 1, "only that to the other Service");
    assert_eq!(
        rig.count(Reason::Nothing, Outcome::RefusedUnseen).packets,
        2
    );
    assert_eq!(rig.count(Reason::Reused, Outcome::Rejected).packets, 2);
    rig.writer.view.judge_by_socket(true, Some(false)).unwrap();
    assert!(refused(rig.in_pod(|| TcpStream::connect(VIP))));
    assert_eq!(stranger.connections(), 0);
    assert_eq!(
        rig.count(Reason::Nothing, Outcome::RefusedUnseen).packets,
        3
    );
}

#[test]
#[ignore = "needs root: BPF and cgroups of its own"]
fn whether_all_interfaces_are_hooked_stays_until_a_new_process_has_looked() {
    let mut rig = Rig::new(VIP);
    let view = &mut rig.writer.view;
    for (in_force, everywhere, expected) in [
        (true, None, View::HOOKED),
        (true, Some(false), View::FOUND),
        (true, None, View::FOUND),
        (false, None, 0),
        (true, None, View::FOUND),
    ] {
        view.judge_by_socket(in_force, everywhere).unwrap();
        assert_eq!(view.written().socket_lb, expected);
    }
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn the_error_of_another_program_stays() {
    if series() < (6, 1) {
        return println!("no program sets an error before Linux 6.1");
    }
    let (_stranger, _, mut rig) = denying(Action::Reject);
    let failing = Balancer::attach_failing(&rig.root.path);
    follow(&mut rig.datapath);
    let error = rig.in_pod(|| TcpStream::connect(VIP)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(rig.count(Reason::Reused, Outcome::Rejected).packets, 0);
    drop(failing);
}

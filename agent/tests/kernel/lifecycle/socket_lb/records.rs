//! What is kept in sockets: nothing where they go to an endpoint by themselves, unless Cilium has a
//! record that they would be taken by.

use super::calls::{Stranger, rig};
use super::*;
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use aya_obj::generated::{bpf_cmd, bpf_map_type};
use epguard::kernel::datapath::bpf::{bpf, open, set_inner_map};
use nix::libc;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd};
use std::time::Duration;

/// `struct ipv4_revnat_tuple` and `struct ipv4_revnat_entry`.
type Key = [u8; 16];
type Value = [u8; 8];

/// Whether CONNECTIONS holds anything of the socket.
fn is_recorded(rig: &Rig, socket: &impl AsRawFd) -> bool {
    let map = open(&rig.node.pins().join("v3/CONNECTIONS"))
        .unwrap()
        .unwrap();
    let key = socket.as_raw_fd();
    let mut value = [0u64; 7];
    let mut attr = [0u64; 4];
    attr[0] = u64::from(map.as_raw_fd().cast_unsigned());
    attr[1] = (&raw const key).expose_provenance() as u64;
    attr[2] = value.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: four words laid out as the kernel's: the map, a key of four octets, a value of 56,
    // which live until the call returns.
    unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &mut attr) }.is_ok()
}

/// A map of Cilium's shape that the programs look up.
fn reverse_map(rig: &mut Rig) -> HashMap<MapData, Key, Value> {
    let kind = bpf_map_type::BPF_MAP_TYPE_LRU_HASH as u32;
    let map = aya_obj::Map::new_from_params(kind, 16, 8, 64, 0);
    let map = MapData::create(map, "cilium", None).unwrap();
    let outer = open(&rig.node.pins().join("v3/CILIUM_SK4"))
        .unwrap()
        .unwrap();
    set_inner_map(outer.as_fd(), 0, Some(map.fd().as_fd())).unwrap();
    rig.writer.view.change(|view| view.cilium = 1).unwrap();
    Map::from_map_data(map).unwrap().try_into().unwrap()
}

/// Records that the socket went to the endpoint through the Service that gets a denial.
fn record(map: &mut HashMap<MapData, Key, Value>, socket: &UdpSocket, endpoint: SocketAddrV4) {
    fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N]
    where
        [u8; N]: Pod,
    {
        parts.concat().try_into().unwrap()
    }
    let ip = endpoint.ip().octets();
    let port = endpoint.port().to_be_bytes();
    let key = joined(&[&cookie(socket).to_ne_bytes(), &ip, &port, &[0; 2]]);
    map.insert(
        key,
        joined(&[&VIP.ip().octets(), &VIP.port().to_be_bytes(), &[0, 1]]),
        0,
    )
    .unwrap();
}

fn cookie(socket: &UdpSocket) -> u64 {
    let mut cookie = 0u64;
    let mut length = 8;
    // SAFETY: as many octets as the option has, which live until the call returns.
    let failed = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            value,
            &raw mut length,
        )
    };
    assert_eq!(failed, 0);
    cookie
}

fn bound() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()
}

/// Ends the connection of a socket: `connect` with `AF_UNSPEC`.
fn disconnect(socket: &UdpSocket) {
    // SAFETY: all-zero is an address of no family.
    let nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
    let length = u32::try_from(size_of::<libc::sockaddr>()).unwrap();
    // SAFETY: an address that lives until the call returns.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
    assert_eq!(result, 0);
}

fn arrives(stranger: &Stranger) {
    until("the datagram does not arrive", || stranger.datagrams() == 1);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_socket_has_a_record_only_if_it_is_connected_through_a_service() {
    let (_stranger, at, mut rig) = rig();
    let _map = reverse_map(&mut rig);
    for denies in [false, true] {
        let direct = rig.in_pod(|| TcpStream::connect(at)).unwrap();
        assert!(
            !is_recorded(&rig, &direct),
            "to the IP itself, denies: {denies}"
        );
        let connected = rig.in_pod(|| TcpStream::connect(OTHER_VIP)).unwrap();
        assert!(
            is_recorded(&rig, &connected),
            "through a Service, denies: {denies}"
        );
        let sends = rig.in_pod(|| {
            let socket = bound();
            socket.send_to(b"x", OTHER_VIP).unwrap();
            socket.send_to(b"x", at).unwrap();
            socket
        });
        assert!(!is_recorded(&rig, &sends), "unconnected, denies: {denies}");
        rig.deny(at, UidState::Dead, None);
    }
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn a_socket_that_goes_to_an_endpoint_by_itself_is_not_taken_by_ciliums_record_of_a_service() {
    let (stranger, at, mut rig) = rig();
    let mut map = reverse_map(&mut rig);
    let [connects, sends] = [(); 2].map(|()| rig.in_pod(bound));
    // The hooks see no call of this one, as of one that is older.
    let by_record = rig.node.in_peer(bound);
    for socket in [&by_record, &connects] {
        record(&mut map, socket, at);
    }
    rig.in_pod(|| [&by_record, &connects, &sends].map(|socket| socket.connect(at).unwrap()));
    // Cilium records the Service of a datagram, too.
    record(&mut map, &sends, at);
    rig.in_pod(|| sends.send_to(b"x", VIP)).unwrap();
    arrives(&stranger);
    rig.deny(at, UidState::Dead, None);
    for socket in [&connects, &sends] {
        socket.send(b"x").unwrap();
        arrives(&stranger);
    }
    by_record.send(b"x").unwrap();
    until("the record counts", || {
        rig.count(Reason::Reused, Outcome::Dropped).packets == 1
    });
    assert_eq!(stranger.datagrams(), 0);
}

#[test]
#[ignore = "needs root: BPF, network namespaces and cgroups of its own"]
fn datagrams_to_the_ip_itself_of_a_socket_that_has_ended_its_connection_to_a_service_arrive() {
    let (stranger, at, mut rig) = rig();
    for balancer in &mut rig.balancers {
        balancer.leave_datagrams();
    }
    follow(&mut rig.datapath);
    let [connected, ended] = [(); 2].map(|()| rig.in_pod(bound));
    rig.in_pod(|| {
        connected.connect(VIP).unwrap();
        ended.connect(VIP).unwrap();
    });
    disconnect(&ended);
    // What it may have sent before has left.
    std::thread::sleep(Duration::from_secs(5));
    rig.deny(at, UidState::Dead, None);
    ended.send_to(b"x", at).unwrap();
    arrives(&stranger);
    connected.send(b"x").unwrap();
    until("it is not denied", || {
        rig.count(Reason::Reused, Outcome::Dropped).packets == 1
    });
}

//! The loads. One thread plays client and server, so that no scheduler and no waiting is in the
//! figures: only the system calls and the way of the packets through the node.

use super::bed::{Bed, addresses};
use crate::bpf::used;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// What a client does with a server, for each second of processor time.
pub(crate) struct Load {
    /// Of its table.
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// What returns makes some of it, and returns how much.
    begin: fn(&Bed) -> Box<dyn FnMut() -> f64>,
}

pub(crate) const LOADS: [Load; 4] = [
    Load {
        title: "TCP throughput for each second of a processor",
        unit: "Mbit/s",
        begin: |bed| Box::new(stream(bed)),
    },
    Load {
        title: "UDP datagrams of 18 octets, for each second of a processor",
        unit: "1/s",
        begin: |bed| Box::new(datagrams(bed)),
    },
    Load {
        title: "Requests and responses on a connection, for each second of a processor",
        unit: "1/s",
        begin: |bed| Box::new(requests(bed)),
    },
    Load {
        title: "TCP connections with a request each, for each second of a processor",
        unit: "1/s",
        begin: |bed| Box::new(connections(bed)),
    },
];

impl Load {
    /// How much is done in a second of processor time, measured for that long.
    pub(crate) fn rate(&self, bed: &Bed, time: Duration) -> f64 {
        let mut work = (self.begin)(bed);
        let mut rate = |time: Duration| {
            let begun = used();
            let mut done = 0.0;
            while used().saturating_sub(begun) < time {
                done += work();
            }
            done / used().saturating_sub(begun).as_secs_f64()
        };
        rate(time / 5);
        rate(time)
    }
}

fn stream(bed: &Bed) -> impl FnMut() -> f64 + use<> {
    const CHUNK: usize = 1 << 17;
    let (mut client, mut server) = connected(bed, 5001);
    for end in [&client, &server] {
        end.set_nonblocking(true).unwrap();
    }
    let out = vec![7; CHUNK];
    let mut into = vec![0; CHUNK];
    move || {
        let _ = some(client.write(&out));
        let mut octets = 0;
        while let Some(some) = some(server.read(&mut into)) {
            octets += some;
        }
        f64::from(u32::try_from(octets).unwrap()) * 8e-6
    }
}

/// `None` if the call would have to wait.
fn some(done: io::Result<usize>) -> Option<usize> {
    match done {
        Ok(octets) => Some(octets),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn datagrams(bed: &Bed) -> impl FnMut() -> f64 + use<> {
    const BURST: u16 = 32;
    let [vip, endpoint] = addresses(5002);
    let server = bed
        .server()
        .run(|| UdpSocket::bind(endpoint))
        .unwrap()
        .unwrap();
    let client = bed.client().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    let client = client.unwrap();
    client.connect(vip).unwrap();
    server
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    move || {
        (0..BURST).for_each(|_| assert_eq!(client.send(&[7; 18]).unwrap(), 18));
        (0..BURST).for_each(|_| assert_eq!(server.recv(&mut [0; 32]).unwrap(), 18));
        f64::from(BURST)
    }
}

/// Requests and responses on one connection.
pub(crate) fn requests(bed: &Bed) -> impl FnMut() -> f64 + use<> {
    let (client, server) = connected(bed, 5003);
    move || {
        exchange(&client, &server);
        1.0
    }
}

fn connections(bed: &Bed) -> impl FnMut() -> f64 + use<> {
    const SOCKETS: usize = 256;
    let [vip, endpoint] = addresses(5004);
    let listener = bed.server().listen(endpoint.into()).unwrap();
    let vip = SockAddr::from(vip);
    let client = bed.client().clone();
    let mut made: Vec<Socket> = Vec::new();
    move || {
        // Sockets are made in the client's namespace, many at a time: it takes a thread of its own.
        if made.is_empty() {
            let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            made = client
                .run(|| (0..SOCKETS).map(|_| socket()).collect())
                .unwrap();
        }
        let client = made.pop().unwrap();
        client.set_linger(Some(Duration::ZERO)).unwrap();
        client.connect(&vip).unwrap();
        let server = listener.accept().unwrap().0;
        exchange(&TcpStream::from(client), &server);
        1.0
    }
}

fn exchange(client: &TcpStream, server: &TcpStream) {
    for (mut from, mut to) in [(client, server), (server, client)] {
        from.write_all(&[7]).unwrap();
        to.read_exact(&mut [0]).unwrap();
    }
}

/// Both ends of a connection to the Service.
fn connected(bed: &Bed, port: u16) -> (TcpStream, TcpStream) {
    let [vip, endpoint] = addresses(port);
    let listener: TcpListener = bed.server().listen(endpoint.into()).unwrap();
    let client = bed
        .client()
        .run(|| TcpStream::connect(vip))
        .unwrap()
        .unwrap();
    let server = listener.accept().unwrap().0;
    for end in [&client, &server] {
        end.set_nodelay(true).unwrap();
        SockRef::from(end).set_linger(Some(Duration::ZERO)).unwrap();
    }
    (client, server)
}

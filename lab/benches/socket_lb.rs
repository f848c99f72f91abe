//! Cost of epguard's hooks around a socket load balancer for one call to a Service.
//!
//! A pod calls another pod of its node. The lab's load balancer translates the Service's IP. Each
//! row has a node, programs and maps of its own. One thread calls; the kernel serves its calls on
//! the same processor, mostly before they return.

use epguard::kernel::datapath::find_cgroup2;
use epguard_common::{Mode, ServiceNumber};
use epguard_core::state::Tables;
use epguard_lab::figures::{Row, Table, in_turns};
use epguard_lab::net::{SocketRoot, Topology, TopologyOptions};
use epguard_lab::programs::{Programs, deny, number};
use epguard_lab::proxy::{Frontend, ServiceRule};
use epguard_lab::socket_lb::SocketLb;
use epguard_lab::workdir::Workdir;
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A row is the mean of so many calls: no more than a listener's queue or a socket's buffer takes.
const CALLS: u32 = 100;
const TITLES: [&str; 5] = [
    "TCP: socket, connect, close",
    "TCP: connect",
    "TCP: connect to the IP itself",
    "UDP: sendto",
    "UDP: sendto the IP itself",
];

const VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 7), 80);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 244, 1, 3), 8080);
const CALLER: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 2);
const PODS: [(&str, Ipv4Addr); 2] = [("shop/server", *SERVER.ip()), ("shop/caller", CALLER)];

/// What is at the cgroup of the caller's sockets.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    LoadBalancer,
    /// A load balancer, and epguard's hooks at the cgroup, with so many denials.
    Sockets(u16),
    /// The same, and epguard reads the load balancer's records, which are maps of Cilium's.
    Cilium(u16),
    /// The same, with epguard's hooks at the node's interfaces.
    Everything(u16),
}

const BASE: &str = "load balancer, without epguard";
const ROWS: [(&str, Beside); 7] = [
    ("no load balancer", Beside::Nothing),
    (BASE, Beside::LoadBalancer),
    ("epguard at sockets, nothing denied", Beside::Sockets(0)),
    ("the same, with Cilium's maps", Beside::Cilium(0)),
    ("epguard at sockets, 1,000 denials", Beside::Sockets(1_000)),
    ("and at interfaces, nothing denied", Beside::Everything(0)),
    (
        "and at interfaces, 1,000 denials",
        Beside::Everything(1_000),
    ),
];

/// A table for each call.
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    let nodes = ROWS.map(|(_, beside)| Node::new(beside));
    let samples = in_turns(if quick { 30 } else { 600 }, ROWS.len(), |row| {
        nodes[row].measure()
    });
    let mut tables: Vec<Table> = TITLES.into_iter().map(Table::new).collect();
    for ((name, _), samples) in ROWS.into_iter().zip(samples) {
        for (table, samples) in tables.iter_mut().zip(samples) {
            table.rows.push(Row::new(name, "ns", samples).beside(BASE));
        }
    }
    tables
}

/// Dropped in this order: programs go before their cgroups.
struct Node {
    tcp: TcpListener,
    udp: UdpSocket,
    to: SockAddr,
    _epguard: Option<Programs>,
    _lb: Option<SocketLb>,
    lab: Topology,
    cgroup: PathBuf,
    _root: SocketRoot,
    _workdir: Workdir,
}

impl Node {
    fn new(beside: Beside) -> Self {
        let mut lab = Topology::new(TopologyOptions::default()).unwrap();
        let workdir = Workdir::new().unwrap();
        let root = SocketRoot::new().unwrap();
        let cgroup = root.make("kubepods.slice").unwrap();
        let [server, caller] = PODS.map(|(pod, ip)| {
            lab.add_pod("node-a", pod, &[ip.into()]).unwrap();
            lab.netns(pod).unwrap().clone()
        });
        let (tcp, udp) = server
            .run(|| {
                (
                    TcpListener::bind(SERVER).unwrap(),
                    UdpSocket::bind(SERVER).unwrap(),
                )
            })
            .unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        let pins = workdir.pins().join("socket-lb");
        let (to, lb) = if let Beside::Nothing = beside {
            (SERVER, None)
        } else {
            let mut lb = SocketLb::new(&root.path, &pins);
            lb.serve(&[&caller]).unwrap();
            lb.start().unwrap();
            let vip = Frontend::ClusterIp(VIP.into());
            lb.program(&ServiceRule::tcp_and_udp(
                "shop/server",
                &[vip],
                &[SERVER.into()],
            ))
            .unwrap();
            (VIP, Some(lb))
        };
        let load = |denials| load_epguard(&lab, &root.path, denials);
        let epguard = match beside {
            Beside::Nothing | Beside::LoadBalancer => None,
            Beside::Sockets(denials) => Some(load(denials)),
            Beside::Cilium(denials) => {
                let mut epguard = load(denials);
                epguard.read_cilium(&pins).unwrap();
                Some(epguard)
            }
            Beside::Everything(denials) => {
                let mut epguard = load(denials);
                epguard.read_cilium(&pins).unwrap();
                epguard.hook().unwrap();
                Some(epguard)
            }
        };
        let to = SocketAddr::from(to).into();
        Self {
            tcp,
            udp,
            to,
            _epguard: epguard,
            _lb: lb,
            lab,
            cgroup,
            _root: root,
            _workdir: workdir,
        }
    }

    /// Nanoseconds for each call. Until it returns, this process is in the cgroup, and so is each
    /// socket that it makes.
    fn measure(&self) -> [f64; TITLES.len()] {
        let own = own_cgroup();
        fs::write(self.cgroup.join("cgroup.procs"), "0").unwrap();
        let costs = self
            .lab
            .netns(PODS[1].0)
            .unwrap()
            .run(|| self.call())
            .unwrap();
        fs::write(own.join("cgroup.procs"), "0").unwrap();
        costs
    }

    fn call(&self) -> [f64; TITLES.len()] {
        let whole = time(|| stream().connect(&self.to).unwrap());
        take(|| self.tcp.accept());
        let sockets: Vec<Socket> = (0..CALLS).map(|_| stream()).collect();
        let mut fresh = sockets.iter();
        let connect = time(|| fresh.next().unwrap().connect(&self.to).unwrap());
        drop(sockets);
        take(|| self.tcp.accept());
        let server = SocketAddr::from(SERVER).into();
        let sockets: Vec<Socket> = (0..CALLS).map(|_| stream()).collect();
        let mut fresh = sockets.iter();
        let direct = time(|| fresh.next().unwrap().connect(&server).unwrap());
        drop(sockets);
        take(|| self.tcp.accept());
        let [send, send_direct] = [&self.to, &server].map(|to| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            let cost = time(|| {
                socket.send_to(b"request\n", to).unwrap();
            });
            take(|| self.udp.recv(&mut [0; 16]));
            cost
        });
        [whole, connect, direct, send, send_direct]
    }
}

/// Hooks the sockets below this root, where a load balancer is already. The denied endpoints are of
/// the Service that is called, but not the one that serves.
fn load_epguard(lab: &Topology, root: &Path, denials: u16) -> Programs {
    let node = lab.netns("node-a").unwrap();
    let mut epguard =
        Programs::load(node, |datapath| Ok(datapath.with_cgroup(Some(root.into())))).unwrap();
    let hooked = (0..2).any(|_| epguard.datapath.follow_socket_lb().unwrap());
    assert!(hooked, "{:?}", epguard.datapath.socket_lb());
    epguard
        .writer
        .view
        .judge_by_socket(true, Some(true))
        .unwrap();
    let mut tables = Tables::default();
    let service = ServiceNumber { number: 1 };
    for host in 0..denials {
        let [high, low] = host.to_be_bytes();
        deny(
            &mut tables,
            service,
            SocketAddr::from(([10, 245, high, low], 8080)),
        );
        number(&mut tables, service, VIP.into());
    }
    epguard.set_mode(Mode::Enforce).unwrap();
    epguard.writer.install(&tables).unwrap();
    epguard.writer.sweep_flows().unwrap();
    epguard
}

/// The cgroup of this process.
fn own_cgroup() -> PathBuf {
    let all = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = all
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap();
    find_cgroup2(None).unwrap().join(own)
}

/// Takes what the calls of one figure have left at the server.
fn take<T>(mut one: impl FnMut() -> io::Result<T>) {
    let begun = Instant::now();
    let mut taken = 0;
    while taken < CALLS {
        match one() {
            Ok(_) => taken += 1,
            Err(error) => assert!(
                error.kind() == io::ErrorKind::WouldBlock
                    && begun.elapsed() < Duration::from_secs(5),
                "{taken} of {CALLS} calls arrived: {error}"
            ),
        }
    }
}

/// A socket that leaves no port behind when it is closed.
fn stream() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    socket
}

fn time(mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..CALLS).for_each(|_| call());
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

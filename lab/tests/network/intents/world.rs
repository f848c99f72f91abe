//! A cluster with the datapath on `node-a`: a client pod there, pod X, and Services S and T that
//! lead to X.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use epguard_common::{Outcome, ServiceNumber};
use epguard_core::state::Tables;
use epguard_lab::net::{NetNs, Topology, TopologyOptions};
use epguard_lab::programs::{Programs, deny, number};
use epguard_lab::proxy::{Frontend, Proxy, ProxyOptions, ServiceRule};
use socket2::{Domain, SockRef, Socket, Type};

use super::figures::{Aim, Denied, Direct, Figures, Other};

/// The port that pod X serves, and that both Services lead to.
pub(crate) const PORT: u16 = 8080;
const NODE_PORTS: [u16; 2] = [30081, 30082];
/// The denied Service.
pub(crate) const S: ServiceNumber = ServiceNumber { number: 1 };
/// The other Service.
pub(crate) const T: ServiceNumber = ServiceNumber { number: 2 };

/// Setup of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) options: TopologyOptions,
    pub(crate) proxy: ProxyOptions,
    pub(crate) ipv6: bool,
    /// Whether pod X is on `node-b`.
    pub(crate) remote: bool,
}

/// The running cluster.
pub(crate) struct World {
    pub(crate) lab: Topology,
    pub(crate) hooks: Programs,
    pub(crate) sink: Sink,
    pub(crate) ipv6: bool,
    pub(crate) tables: Tables,
    x: IpAddr,
}

impl World {
    /// Builds the cluster, hooks `node-a`, and denies Service S its endpoint X.
    pub(crate) fn new(plan: Plan) -> Self {
        let mut lab = Topology::new(plan.options).unwrap();
        let client = lab.node("node-a").unwrap().pod_ip(!plan.ipv6, 2);
        lab.add_pod("node-a", "shop/client", &[client]).unwrap();
        let node = if plan.remote { "node-b" } else { "node-a" };
        let x = lab.node(node).unwrap().pod_ip(!plan.ipv6, 3);
        let sink = Sink::start(&lab.add_pod(node, "bank/x", &[x]).unwrap().netns, PORT);
        let proxy = Proxy::new(lab.netns("node-a").unwrap(), plan.proxy);
        proxy.program(&rules(plan.ipv6, x)).unwrap();
        let mut hooks = Programs::load(lab.netns("node-a").unwrap(), Ok).unwrap();
        hooks.hook().unwrap();
        let tables = tables(&lab, plan.ipv6, x);
        hooks.writer.install(&tables).unwrap();
        Self {
            lab,
            hooks,
            sink,
            ipv6: plan.ipv6,
            tables,
            x,
        }
    }

    /// The address that a client uses for an aim.
    pub(crate) fn address(&self, aim: Aim) -> SocketAddr {
        match aim {
            Direct => SocketAddr::new(self.x, PORT),
            service => vip(self.ipv6, service),
        }
    }

    /// The address that a host outside of the cluster uses for an aim.
    pub(crate) fn node_port(&self, aim: Aim) -> SocketAddr {
        if aim == Direct {
            return self.address(Direct);
        }
        SocketAddr::new(
            self.lab.node("node-a").unwrap().ip(!self.ipv6),
            NODE_PORTS[aim as usize],
        )
    }

    /// A host's network namespace.
    pub(crate) fn netns(&self, host: &str) -> &NetNs {
        self.lab.netns(host).unwrap()
    }

    /// An unconnected UDP socket in a host's network namespace.
    pub(crate) fn socket(&self, host: &str) -> UdpSocket {
        let any = if self.ipv6 {
            IpAddr::from(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::from([0, 0, 0, 0])
        };
        self.netns(host)
            .run(|| UdpSocket::bind((any, 0)))
            .unwrap()
            .unwrap()
    }

    /// The counters of the datapath and of pod X so far.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            aimed: [0; 3],
            arrived: self.sink.arrived(),
            denied: self
                .hooks
                .packets(&[Outcome::Observed, Outcome::Dropped])
                .unwrap(),
            no_intent: self.hooks.packets(&[Outcome::NoIntent]).unwrap(),
            no_connection: self.hooks.packets(&[Outcome::NoConnection]).unwrap(),
            not_denied: self.hooks.packets(&[Outcome::NotDenied]).unwrap(),
        }
    }

    /// Runs a shell command in a host's network namespace, with its `/sys`.
    #[track_caller]
    pub(crate) fn shell(&self, host: &str, script: &str) {
        let name = self.netns(host).name();
        let mut command = std::process::Command::new("ip");
        let output = command
            .args(["netns", "exec", name, "sh", "-ec", script])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The node's end of a pod's veth pair.
    pub(crate) fn link(&self, pod: &str) -> &str {
        &self.lab.pod(pod).unwrap().host_ifname
    }
}

fn vip(ipv6: bool, service: Aim) -> SocketAddr {
    let text = match (ipv6, service == Denied) {
        (false, true) => "10.96.0.1:80",
        (false, false) => "10.96.0.2:80",
        (true, true) => "[fd00:10:96::1]:80",
        (true, false) => "[fd00:10:96::2]:80",
    };
    text.parse().unwrap()
}

/// The rules of both Services, for the proxy.
pub(crate) fn rules(ipv6: bool, x: IpAddr) -> Vec<ServiceRule> {
    let rules = |service: Aim| {
        let node_port = Frontend::NodePort {
            family: x,
            port: NODE_PORTS[service as usize],
        };
        let frontends = [Frontend::ClusterIp(vip(ipv6, service)), node_port];
        ServiceRule::tcp_and_udp(
            &format!("shop/{service:?}"),
            &frontends,
            &[SocketAddr::new(x, PORT)],
        )
    };
    [Denied, Other].into_iter().flat_map(rules).collect()
}

/// Denies Service S its endpoint X. Service T has a number, too, as if another endpoint were
/// denied.
fn tables(lab: &Topology, ipv6: bool, x: IpAddr) -> Tables {
    let mut tables = Tables::default();
    deny(&mut tables, S, SocketAddr::new(x, PORT));
    for (service, of) in [(Denied, S), (Other, T)] {
        let node = lab.node("node-a").unwrap().ip(!ipv6);
        number(&mut tables, of, vip(ipv6, service));
        number(&mut tables, of, (node, NODE_PORTS[service as usize]).into());
    }
    tables
}

/// Both address families, with everything else equal.
pub(crate) fn on_both_families(plan: Plan, test: impl Fn(World)) {
    for ipv6 in [false, true] {
        test(World::new(Plan { ipv6, ..plan }));
    }
}

/// The running process of pod X. Its threads end with the test process.
#[derive(Debug)]
pub(crate) struct Sink {
    arrived: Arc<[AtomicU64; 3]>,
    stop: Arc<UdpSocket>,
}

impl Sink {
    /// Serves a UDP and a TCP port on all addresses.
    pub(crate) fn start(netns: &NetNs, port: u16) -> Self {
        let arrived = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (datagrams, streams) = netns
            .run(|| (bind(Type::DGRAM, port), bind(Type::STREAM, port)))
            .unwrap();
        streams.listen(1024).unwrap();
        let datagrams = Arc::new(UdpSocket::from(datagrams));
        SockRef::from(&*datagrams)
            .set_recv_buffer_size(1 << 23)
            .unwrap();
        datagrams
            .set_read_timeout(Some(Duration::from_mins(2)))
            .unwrap();
        let counted = Arc::clone(&arrived);
        let socket = Arc::clone(&datagrams);
        std::thread::spawn(move || count(&socket, &counted));
        let streams = TcpListener::from(streams);
        std::thread::spawn(move || {
            for stream in streams.incoming().flatten() {
                std::thread::spawn(move || digest(stream));
            }
        });
        Self {
            arrived,
            stop: datagrams,
        }
    }

    /// Datagrams received, by aim.
    pub(crate) fn arrived(&self) -> [u64; 3] {
        std::array::from_fn(|aim| self.arrived[aim].load(Ordering::Relaxed))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = SockRef::from(&*self.stop).shutdown(std::net::Shutdown::Both);
    }
}

fn bind(kind: Type, port: u16) -> Socket {
    let socket = Socket::new(Domain::IPV6, kind, None).unwrap();
    socket.set_only_v6(false).unwrap();
    let any = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
    socket.bind(&any.into()).unwrap();
    socket
}

fn count(socket: &UdpSocket, arrived: &[AtomicU64; 3]) {
    let mut datagram = [0; 8192];
    while let Ok(length) = socket.recv(&mut datagram) {
        match datagram[..length].first() {
            Some(aim @ 0..=2) => arrived[usize::from(*aim)].fetch_add(1, Ordering::Relaxed),
            _ => break,
        };
    }
}

/// Answers with the length and the checksum of all data up to the end of the stream.
fn digest(mut stream: std::net::TcpStream) -> std::io::Result<()> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    stream.write_all(&summary(&received))
}

/// Length and FNV-1a of `octets`.
pub(crate) fn summary(octets: &[u8]) -> [u8; 16] {
    let step = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    let hash = octets.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let mut summary = [0; 16];
    summary[..8].copy_from_slice(&(octets.len() as u64).to_be_bytes());
    summary[8..].copy_from_slice(&hash.to_be_bytes());
    summary
}

//! The small cluster with a load balancer at the sockets of `node-a` and its client, and no other
//! proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::net::cluster::Cluster;
use epguard_lab::net::{SocketRoot, TopologyOptions, socket_in};
use epguard_lab::proxy::{Frontend, Protocol, ServiceRule};
use epguard_lab::socket_lb::SocketLb;
use epguard_lab::traffic::{Client, ClientCall, Outcome};
use epguard_lab::workdir::Workdir;
use socket2::{Domain, SockAddr, Socket, Type};

/// Where the sockets are made, below the root.
const CGROUP: &str = "kubepods.slice";

/// The cluster with its load balancer.
pub(crate) struct World {
    pub(crate) lb: SocketLb,
    pub(crate) cluster: Cluster,
    pub(crate) root: SocketRoot,
    _workdir: Workdir,
}

/// Runs a test in both address families.
pub(crate) fn on_both_families(test: impl Fn(World)) {
    for ipv6 in [false, true] {
        println!("IPv{}", if ipv6 { 6 } else { 4 });
        test(World::new(ipv6));
    }
}

impl World {
    fn new(ipv6: bool) -> Self {
        let cluster = Cluster::new(TopologyOptions::default(), ipv6);
        let workdir = Workdir::new().unwrap();
        let root = SocketRoot::new().unwrap();
        root.make(CGROUP).unwrap();
        let mut lb = SocketLb::new(&root.path, &workdir.pins().join("socket-lb"));
        let served = ["node-a", "shop/client"].map(|host| cluster.lab.netns(host).unwrap());
        lb.serve(&served).unwrap();
        lb.start().unwrap();
        Self {
            lb,
            cluster,
            root,
            _workdir: workdir,
        }
    }

    /// A Service port for TCP and one for UDP.
    pub(crate) fn service(
        vip: SocketAddr,
        backends: &[SocketAddr],
        affinity: bool,
    ) -> [ServiceRule; 2] {
        let rules = ServiceRule::tcp_and_udp("shop/a", &[Frontend::ClusterIp(vip)], backends);
        rules.map(|rule| ServiceRule { affinity, ..rule })
    }

    /// The cluster's Service has these backends, and there is no other.
    pub(crate) fn program(&mut self, backends: &[SocketAddr]) {
        let rules = Self::service(self.cluster.vip(), backends, false);
        self.lb.program(&rules).unwrap();
    }

    /// The pods of the cluster that serve.
    pub(crate) fn backends(&self) -> [SocketAddr; 2] {
        [self.cluster.pod(1, 3), self.cluster.pod(2, 3)]
    }

    /// Makes one call from a host to an address.
    pub(crate) fn call(&self, from: &str, protocol: Protocol, to: SocketAddr) -> Outcome {
        let client =
            Client::new(self.cluster.lab.netns(from).unwrap()).in_cgroups(vec![self.cgroup()]);
        let call = ClientCall {
            protocol,
            to,
            from: None,
            timeout: Duration::from_secs(1),
        };
        client.call(call).outcome
    }

    fn cgroup(&self) -> PathBuf {
        self.root.path.join(CGROUP)
    }

    /// A socket of a host, of the domain of `to`.
    pub(crate) fn socket(&self, host: &str, kind: Type, to: SocketAddr) -> Socket {
        let socket = self
            .cluster
            .lab
            .netns(host)
            .unwrap()
            .run(|| socket_in(&[self.cgroup()], Domain::for_address(to), kind))
            .unwrap()
            .unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }
}

/// What `getpeername` returns.
pub(crate) fn peer(socket: &Socket) -> SocketAddr {
    socket.peer_addr().unwrap().as_socket().unwrap()
}

/// Sends a request from an unconnected UDP socket, and returns the sender that the reply shows.
pub(crate) fn echo(socket: &Socket, to: SocketAddr) -> SocketAddr {
    socket.send_to(b"request\n", &SockAddr::from(to)).unwrap();
    let mut reply = [std::mem::MaybeUninit::uninit(); 64];
    let (_, from) = socket.recv_from(&mut reply).unwrap();
    from.as_socket().unwrap()
}

/// Any address of a family.
pub(crate) fn any(ipv6: bool) -> SocketAddr {
    let ip = if ipv6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    };
    SocketAddr::new(ip, 0)
}

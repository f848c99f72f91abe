//! A small cluster for the tests: a client and a backend on `node-a`, another backend on `node-b`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use epguard_lab::net::{Cni, Overlay, Topology, TopologyOptions};
use epguard_lab::proxy::{Frontend, Protocol, Proxy, ProxyOptions, ServiceRule};
use epguard_lab::traffic::{Client, ClientCall, Outcome, Server};

/// The port that pods serve.
pub(crate) const TARGET_PORT: u16 = 8080;
/// The `NodePort` of Services.
pub(crate) const NODE_PORT: u16 = 30080;
/// The protocols that the lab has sockets for.
pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// The topology with its servers.
pub(crate) struct Cluster {
    pub(crate) lab: Topology,
    pub(crate) servers: Vec<Server>,
    pub(crate) ipv6: bool,
}

/// Runs a test on both CNIs and both address families.
pub(crate) fn on_every_cni_and_family(test: impl Fn(Cluster)) {
    for cni in [Cni::Ptp, Cni::Bridge] {
        for ipv6 in [false, true] {
            println!("{cni:?}, IPv{}", if ipv6 { 6 } else { 4 });
            test(Cluster::new(
                TopologyOptions {
                    cni,
                    overlay: Overlay::None,
                },
                ipv6,
            ));
        }
    }
}

impl Cluster {
    pub(crate) fn new(options: TopologyOptions, ipv6: bool) -> Self {
        let lab = Topology::new(options).unwrap();
        let mut cluster = Self {
            lab,
            servers: Vec::new(),
            ipv6,
        };
        cluster
            .lab
            .add_pod("node-a", "shop/client", &[cluster.ip(1, 2)])
            .unwrap();
        cluster.serve("node-a", "shop/local", cluster.ip(1, 3));
        cluster.serve("node-b", "shop/remote", cluster.ip(2, 3));
        cluster
    }

    /// Adds a pod that serves every protocol.
    pub(crate) fn serve(&mut self, node: &str, name: &str, ip: IpAddr) {
        let pod = self.lab.add_pod(node, name, &[ip]).unwrap();
        self.servers
            .push(Server::start(&pod.netns, name, &[TARGET_PORT]).unwrap());
    }

    /// An address in the pod CIDR of a node.
    pub(crate) fn ip(&self, node: u8, host: u8) -> IpAddr {
        let node = if node == 1 { "node-a" } else { "node-b" };
        self.lab.node(node).unwrap().pod_ip(!self.ipv6, host)
    }

    /// The address and port of a pod's server.
    pub(crate) fn pod(&self, node: u8, host: u8) -> SocketAddr {
        SocketAddr::new(self.ip(node, host), TARGET_PORT)
    }

    /// The cluster IP and port of the Service.
    pub(crate) fn vip(&self) -> SocketAddr {
        (if self.ipv6 {
            "[fd00:10:96::a]:80"
        } else {
            "10.96.0.10:80"
        })
        .parse()
        .unwrap()
    }

    /// The `NodePort` of the Service on a node.
    pub(crate) fn node_port(&self, node: &str) -> SocketAddr {
        SocketAddr::new(self.lab.node(node).unwrap().ip(!self.ipv6), NODE_PORT)
    }

    /// Programs the Service with these backends on a node.
    pub(crate) fn program(
        &self,
        node: &str,
        backends: &[SocketAddr],
        options: ProxyOptions,
    ) -> Proxy {
        let vip = self.vip();
        let node_port = Frontend::NodePort {
            family: vip.ip(),
            port: NODE_PORT,
        };
        let rules =
            ServiceRule::tcp_and_udp("shop/a", &[Frontend::ClusterIp(vip), node_port], backends);
        let proxy = Proxy::new(self.lab.netns(node).unwrap(), options);
        proxy.program(&rules).unwrap();
        proxy
    }

    /// Makes one call from a host to an address.
    pub(crate) fn call(&self, from: &str, protocol: Protocol, to: SocketAddr) -> Outcome {
        self.call_within(Duration::from_secs(1), from, protocol, to)
    }

    fn call_within(
        &self,
        timeout: Duration,
        from: &str,
        protocol: Protocol,
        to: SocketAddr,
    ) -> Outcome {
        let client = Client::new(self.lab.netns(from).unwrap());
        client
            .call(ClientCall {
                protocol,
                to,
                from: None,
                timeout,
            })
            .outcome
    }

    /// Asserts which pod answers such a call, in each protocol. It may take its time on a busy
    /// machine.
    #[track_caller]
    pub(crate) fn answered_by(&self, from: &str, to: SocketAddr, pod: &str) {
        for protocol in PROTOCOLS {
            assert_eq!(
                self.call_within(Duration::from_secs(10), from, protocol, to),
                Outcome::Reply(pod.to_owned()),
                "{from} to {to}/{protocol:?}"
            );
        }
    }
}

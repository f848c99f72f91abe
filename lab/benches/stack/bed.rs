//! The node between two pods, and its kube-proxy.

use super::filters::shares_bucket;
use anyhow::Context as _;
use epguard_lab::net::{NetNs, Topology, TopologyOptions};
use epguard_lab::process::output;
use epguard_lab::proxy::{Frontend, Proxy, ProxyOptions, ServiceRule};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The live Service's IP and the server's.
const VIP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 244, 1, 3);
/// A Service that still lists a dead pod, and the dead pod's IP and port, which a live pod of
/// another application has now.
pub(crate) const STALE_SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 2), 80);
pub(crate) const REUSED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 244, 1, 5), 8080);
const PODS: [(&str, Ipv4Addr); 3] = [
    ("shop/client", Ipv4Addr::new(10, 244, 1, 2)),
    ("shop/server", SERVER),
    ("bank/owner", *REUSED.ip()),
];
/// Ports of the live Service, one for each load.
const PORTS: std::ops::Range<u16> = 5001..5005;

/// Network namespaces of a client pod, a server pod and the node that routes between them.
pub(crate) struct Bed {
    pub(crate) lab: Topology,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let mut lab = Topology::new(TopologyOptions::default()).unwrap();
        for (name, ip) in PODS {
            assert!(!shares_bucket(ip) && !shares_bucket(VIP), "take another IP");
            lab.add_pod("node-a", name, &[ip.into()]).unwrap();
        }
        let bed = Self { lab };
        // Connections that ended do not fill the table.
        let timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close";
        bed.node().io(|| fs::write(timeout, "1")).unwrap();
        let proxy = Proxy::new(bed.node(), ProxyOptions::default());
        proxy.program(&services()).unwrap();
        bed
    }

    pub(crate) fn node(&self) -> &NetNs {
        self.lab.netns("node-a").unwrap()
    }

    pub(crate) fn client(&self) -> &NetNs {
        self.lab.netns("shop/client").unwrap()
    }

    pub(crate) fn server(&self) -> &NetNs {
        self.lab.netns("shop/server").unwrap()
    }

    /// The node's interfaces that a node agent hooks: the pods' and the uplink.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let pods = PODS.map(|(name, _)| self.lab.pod(name).unwrap().host_ifname.clone());
        pods.into_iter().chain(["eth0".to_owned()]).collect()
    }

    /// Runs a program on the node.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        output(self.node().command(program).args(arguments))
            .with_context(|| format!("{program} {}", arguments.join(" ")))
            .unwrap();
    }
}

/// Where the client finds a port of the server: at the Service, and where it is bound.
pub(crate) fn addresses(port: u16) -> [SocketAddrV4; 2] {
    [VIP, SERVER].map(|ip| SocketAddrV4::new(ip, port))
}

fn services() -> Vec<ServiceRule> {
    let all = PORTS.map(addresses).chain([[STALE_SERVICE, REUSED]]);
    let rules = |[vip, endpoint]: [SocketAddrV4; 2]| {
        ServiceRule::tcp_and_udp(
            &format!("shop/at-{}", vip.port()),
            &[Frontend::ClusterIp(vip.into())],
            &[endpoint.into()],
        )
    };
    all.flat_map(rules).collect()
}

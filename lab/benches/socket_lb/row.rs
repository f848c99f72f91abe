//! One row: a node with a pod that calls and one that serves, a load balancer, and epguard's hooks, or neither.

use super::calls::{COSTS, Server};
use super::epguard::{Denials, Epguard};
use ::epguard::kernel::datapath::find_cgroup2;
use epguard_lab::net::{SocketRoot, Topology, TopologyOptions};
use epguard_lab::proxy::{Frontend, Protocol, ServiceRule};
use epguard_lab::scenario::workdir::Workdir;
use epguard_lab::socket_lb::SocketLb;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The Services' IPs: the first leads to another pod, the second to a server of the caller's own.
pub(crate) const VIPS: [[u8; 4]; 2] = [[10, 96, 0, 7], [10, 96, 0, 8]];
pub(crate) const SERVICE_PORT: u16 = 80;
pub(crate) const PODS: [&str; 2] = ["shop/server", "shop/caller"];
const IPS: [[u8; 4]; 2] = [[10, 244, 1, 3], [10, 244, 1, 2]];

/// What is at the cgroup of the caller's sockets.
#[derive(Clone, Copy)]
pub(crate) enum Beside {
    Nothing,
    LoadBalancer,
    /// A load balancer, and epguard's hooks at the cgroup.
    Sockets(Denials),
    /// The same, with epguard's hooks at the pods' interfaces.
    Everything(Denials),
}

/// Dropped in this order: programs go before their cgroups.
pub(crate) struct Row {
    servers: [Server; 2],
    to: [SocketAddr; 2],
    _epguard: Option<Epguard>,
    _lb: Option<SocketLb>,
    lab: Topology,
    cgroup: PathBuf,
    _root: SocketRoot,
    _workdir: Workdir,
}

impl Row {
    pub(crate) fn new(beside: Beside) -> Self {
        let mut lab = Topology::new(TopologyOptions::default()).unwrap();
        let (workdir, root) = (Workdir::new().unwrap(), SocketRoot::new().unwrap());
        let cgroup = root.make("kubepods.slice").unwrap();
        let endpoints = IPS.map(|ip| SocketAddr::from((ip, 8080)));
        for (pod, endpoint) in PODS.into_iter().zip(endpoints) {
            lab.add_pod("node-a", pod, &[endpoint.ip()]).unwrap();
        }
        let serve = |number: usize| {
            let netns = lab.netns(PODS[number]).unwrap();
            netns.run(|| Server::new(endpoints[number])).unwrap()
        };
        let (to, lb) = if let Beside::Nothing = beside {
            (endpoints, None)
        } else {
            let mut lb = SocketLb::new(root.path(), &workdir.pins().join("socket-lb"));
            lb.serve(&[lab.netns(PODS[1]).unwrap()]).unwrap();
            lb.start().unwrap();
            lb.program(&rules(endpoints)).unwrap();
            (VIPS.map(|vip| SocketAddr::from((vip, SERVICE_PORT))), Some(lb))
        };
        let pins = workdir.pins().join("epguard");
        let epguard = match beside {
            Beside::Nothing | Beside::LoadBalancer => None,
            Beside::Sockets(denials) => Some(Epguard::start(&lab, &pins, root.path(), denials)),
            Beside::Everything(denials) => {
                let mut epguard = Epguard::start(&lab, &pins, root.path(), denials);
                epguard.hook(&lab);
                Some(epguard)
            }
        };
        Self {
            servers: [serve(0), serve(1)],
            to,
            _epguard: epguard,
            _lb: lb,
            lab,
            cgroup,
            _root: root,
            _workdir: workdir,
        }
    }

    /// Nanoseconds for each call. Until it returns, this process is in the row's cgroup, and so is each socket that it makes.
    pub(crate) fn round(&self) -> [f64; COSTS] {
        let own = own_cgroup();
        fs::write(self.cgroup.join("cgroup.procs"), "0").unwrap();
        let caller = self.lab.netns(PODS[1]).unwrap();
        let measure = || [0, 1].map(|number| self.servers[number].measure(self.to[number]));
        let costs = caller.run(measure).unwrap();
        fs::write(own.join("cgroup.procs"), "0").unwrap();
        let [pod, itself] = costs;
        [pod[0], pod[1], pod[2], itself[0], itself[1], itself[2]]
    }
}

/// The cgroup of this process.
fn own_cgroup() -> PathBuf {
    let all = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = all.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    find_cgroup2(None).unwrap().join(own)
}

fn rules(endpoints: [SocketAddr; 2]) -> Vec<ServiceRule> {
    let mut rules = Vec::new();
    for (vip, endpoint) in VIPS.into_iter().zip(endpoints) {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            rules.push(ServiceRule {
                name: format!("shop/{}:{protocol:?}", IpAddr::from(vip)),
                protocol,
                frontends: vec![Frontend::ClusterIp(SocketAddr::from((vip, SERVICE_PORT)))],
                backends: vec![endpoint],
                ..ServiceRule::default()
            });
        }
    }
    rules
}

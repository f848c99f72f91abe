//! A node with the agent, a client, and a pod with the IPs of many pods, each behind a Service of its own.

use super::objects::{self, State};
use aya::maps::{HashMap, Map, MapData};
use epguard::kernel::maps;
use epguard::shared::status::Status;
use epguard_common::{Addr, DenialKey, Keyed, Outcome, RawDenial, Reason};
use epguard_lab::agent::{AgentProcess, Place};
use epguard_lab::api::{ApiServer, Store};
use epguard_lab::net::{Topology, TopologyOptions, cgroup_root};
use epguard_lab::proxy::{Frontend, Protocol, Proxy, ProxyOptions, ServiceRule};
use epguard_lab::scenario::process;
use epguard_lab::scenario::workdir::Workdir;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pods that can die.
pub(crate) const PODS: u16 = 120;
const PAUSE: Duration = Duration::from_micros(50);

/// Durations from an event.
pub(crate) struct Took {
    /// Until DENIED has the denial.
    pub(crate) map: Duration,
    /// Until a packet was dropped.
    pub(crate) packet: Duration,
}

/// Dropped in this order: the agent before its network and its directory.
pub(crate) struct Cluster {
    agent: AgentProcess,
    client: UdpSocket,
    pins: PathBuf,
    store: Store,
    _server: ApiServer,
    _lab: Topology,
    _workdir: Workdir,
}

impl Cluster {
    /// Returns when the agent is synced and has hooked the pods.
    pub(crate) fn start() -> Self {
        let mut lab = Topology::new(TopologyOptions::default()).unwrap();
        let client = [IpAddr::from([10, 244, 1, 2])];
        lab.add_pod("node-a", "shop/client", &client).unwrap();
        let ips: Vec<IpAddr> = (0..PODS).map(|pod| ip(pod).into()).collect();
        lab.add_pod("node-a", "shop/dying", &ips).unwrap();
        let node = lab.netns("node-a").unwrap();
        let rules: Vec<_> = (0..PODS).map(rule).collect();
        Proxy::new(node, ProxyOptions::default()).program(&rules).unwrap();
        let store = Store::new();
        fill(&store);
        let listener = node.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        let workdir = Workdir::new().unwrap();
        let pins = workdir.pins().join("epguard");
        let place = Place {
            node: "node-a",
            kubeconfig: &server.kubeconfig(),
            run_dir: workdir.path(),
            pin_dir: &pins,
        };
        let mut command = node.command(process::epguard().unwrap());
        command
            .args(place.arguments().unwrap())
            .args(["--mode", "enforce"]);
        if let Some(root) = cgroup_root() {
            command.arg("--cgroup-root").arg(root);
        }
        let mut agent = AgentProcess::start(command, workdir.path()).unwrap();
        let links = ["shop/client", "shop/dying"].map(|pod| lab.pod(pod).unwrap().host_ifname.clone());
        let missing = |status: &Status| {
            let hooked = |link: &String| {
                let mut all = status.interfaces.iter();
                all.any(|interface| interface.name == *link && interface.attached)
            };
            let ready = status.synced && links.iter().all(hooked);
            (!ready).then(|| format!("{:?}", status.interfaces))
        };
        agent.until("is not ready", missing).unwrap();
        let socket = || UdpSocket::bind("0.0.0.0:0");
        let client = lab.netns("shop/client").unwrap().run(socket).unwrap();
        Self {
            agent,
            client: client.unwrap(),
            pins,
            store,
            _server: server,
            _lab: lab,
            _workdir: workdir,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Ends the last container of a pod, and sends to its Service until a packet is dropped.
    pub(crate) fn kill(&mut self, number: u16) -> Took {
        let map = Map::HashMap(maps::open(&self.pins, "DENIED").unwrap());
        let denied: HashMap<MapData, DenialKey, Keyed<DenialKey, RawDenial>> = map.try_into().unwrap();
        let dropped = || maps::packets(&self.pins, Reason::DeadBackend, Outcome::Dropped);
        let before = dropped();
        let dead = objects::pod(&name(number), ip(number), State::Ended);
        let begun = Instant::now();
        self.store.apply(dead).unwrap();
        let mut in_map = None;
        loop {
            let is_there = || {
                denied
                    .keys()
                    .flatten()
                    .any(|key| key.addr == Addr::from(IpAddr::from(ip(number))))
            };
            if in_map.is_none() && is_there() {
                in_map = Some(begun.elapsed());
            }
            let _ = self.client.send_to(b"request", (vip(number), 80));
            if dropped() > before {
                let packet = begun.elapsed();
                return Took {
                    map: in_map.unwrap_or(packet),
                    packet,
                };
            }
            assert!(
                begun.elapsed() < Duration::from_mins(1),
                "pod {number} is not denied: {}",
                self.agent.log()
            );
            sleep(PAUSE);
        }
    }
}

fn fill(store: &Store) {
    store.apply(objects::namespace("shop")).unwrap();
    store.apply(objects::node("node-a", "10.244.1.0/24")).unwrap();
    store.apply(objects::node("node-b", "10.244.2.0/24")).unwrap();
    for number in 0..PODS {
        let (name, ip) = (name(number), ip(number));
        let pod = store.apply(objects::pod(&name, ip, State::Running)).unwrap();
        store.apply(objects::service(&name, vip(number))).unwrap();
        let uid = &pod["metadata"]["uid"];
        store.apply(objects::slice(&name, ip, uid)).unwrap();
    }
}

fn rule(number: u16) -> ServiceRule {
    ServiceRule {
        name: format!("shop/{}:p", name(number)),
        protocol: Protocol::Udp,
        frontends: vec![Frontend::ClusterIp((vip(number), 80).into())],
        backends: vec![(ip(number), 8080).into()],
        ..ServiceRule::default()
    }
}

fn name(number: u16) -> String {
    format!("pod-{number}")
}

fn ip(number: u16) -> Ipv4Addr {
    let [_, low] = (number + 100).to_be_bytes();
    Ipv4Addr::new(10, 244, 1, low)
}

fn vip(number: u16) -> Ipv4Addr {
    let [_, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(10, 96, 2, low)
}

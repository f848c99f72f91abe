//! A node with the agent, a client, and a pod with the IPs of many pods, each behind a Service of its own.

use super::objects::{self, State};
use epguard::kernel::maps::{self, KeyedMap};
use epguard_common::{Addr, DenialKey, Outcome, RawDenial, Reason};
use epguard_lab::api::{ApiServer, Kind, Store};
use epguard_lab::net::{Topology, TopologyOptions};
use epguard_lab::proxy::{Proxy, ProxyOptions, service_rules};
use epguard_lab::scenario::agent::{Agent, AgentOptions};
use epguard_lab::scenario::format;
use epguard_lab::scenario::workdir::Workdir;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
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
    agent: Agent,
    client: UdpSocket,
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
        let store = Store::new();
        fill(&store);
        let [services, slices] = [Kind::Service, Kind::EndpointSlice].map(|kind| store.list(kind));
        let rules = service_rules(&services, &slices, "node-a");
        Proxy::new(node, ProxyOptions::default()).program(&rules).unwrap();
        let listener = node.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        let workdir = Workdir::new().unwrap();
        let flags = format::Agent {
            mode: Some("enforce".into()),
            ..format::Agent::default()
        };
        let options = AgentOptions {
            node: "node-a",
            hooks: None,
            action: None,
            cgroup: None,
            cilium_maps: None,
            flags: &flags,
        };
        let mut agent = Agent::prepare(node, &workdir, &server.kubeconfig(), &options).unwrap();
        agent.start_again().unwrap();
        let links = ["shop/client", "shop/dying"].map(|pod| &*lab.pod(pod).unwrap().host_ifname);
        agent.catch_up(&store, &links).unwrap();
        let socket = || UdpSocket::bind("0.0.0.0:0");
        let client = lab.netns("shop/client").unwrap().io(socket).unwrap();
        Self {
            agent,
            client,
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
        let pins = self.agent.pin_dir();
        let denied = KeyedMap::<DenialKey, RawDenial>::pinned(pins, "DENIED").unwrap();
        let dropped = || maps::packets(pins, Reason::DeadBackend, Outcome::Dropped);
        let before = dropped();
        let dead = objects::pod(&name(number), ip(number), State::Ended);
        let addr = Addr::v4(ip(number).octets());
        let begun = Instant::now();
        self.store.apply(dead).unwrap();
        let mut in_map = None;
        loop {
            let is_there = || denied.keys().flatten().any(|key| key.addr == addr);
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
    store.ensure_namespace("shop").unwrap();
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

//! The cluster that the story plays on: a real network, a real API server, the real agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use epguard_common::Mode;
use serde_json::{Value, json};

use super::callers::{Caller, OUTSIDE, Team};
use super::recording::{self, CLUSTER_IP, NODE_PORT, Recording};
use crate::api::{Kind, ObjectRef, Store};
use crate::net::{Topology, TopologyOptions};
use crate::proxy::{Protocol, Proxy, ProxyOptions, service_rules};
use crate::scenario::agent::Agent;
use crate::scenario::format;
use crate::scenario::serve::Serving;
use crate::scenario::workdir::Workdir;
use crate::traffic::{Client, Port, Server};

/// The address that A's pod has first, and B's pod afterwards.
pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 244, 1, 11));
/// The port that both pods serve.
pub const PORT: u16 = 8080;

/// A's pod and its address when its Job runs again.
const RERUN: (&str, Ipv4Addr) = ("report-rerun", Ipv4Addr::new(10, 244, 1, 14));

const CLIENTS: [(&str, &str); 2] = [("domain-a", "10.244.1.12"), ("domain-b", "10.244.1.13")];

/// Everything is gone again when it is dropped.
#[derive(Debug)]
pub struct Stage {
    /// The agent on node-a.
    pub agent: Agent,
    /// What the API shows.
    pub store: Store,
    recording: Recording,
    a: Option<Server>,
    b: Option<Server>,
    rerun: Option<Server>,
    proxy: Proxy,
    topology: Topology,
    _api: Serving,
    _workdir: Workdir,
}

impl Stage {
    /// Two nodes, a client pod for each team, an API server, and the agent in observe mode. Needs root.
    pub fn new() -> Result<Self> {
        let workdir = Workdir::new()?;
        let mut topology = Topology::new(TopologyOptions::default())?;
        let store = Store::new();
        let mut recording = Recording::read()?;
        recording.play(100.0, &store)?;
        for (namespace, address) in CLIENTS {
            topology.add_pod("node-a", &format!("{namespace}/client"), &[address.parse()?])?;
            recording::show(&store, recording::client(namespace, address)?)?;
        }
        let node = topology.node("node-a")?.netns.clone();
        let api = Serving::start(&node, store.clone())?;
        let agent = Agent::start(
            &node,
            &workdir,
            api.kubeconfig(),
            &format::Agent::default().options(),
        )?;
        let proxy = Proxy::new(&node, ProxyOptions::default());
        Ok(Self {
            agent,
            store,
            recording,
            a: None,
            b: None,
            rerun: None,
            proxy,
            topology,
            _api: api,
            _workdir: workdir,
        })
    }

    /// A's Job pod runs and is an endpoint of A's Service (recorded at 1179 to 1184 ms).
    pub fn a_runs(&mut self) -> Result<()> {
        self.a = Some(self.start_pod("A", "A", ADDRESS)?);
        self.play(2000.0)
    }

    /// A's Job is done: its process ends, the endpoint stays ready (5994 ms), its address is freed (7053 ms), the pod is
    /// Succeeded (7081 ms).
    pub fn a_ends(&mut self) -> Result<()> {
        self.a = None;
        self.play(6500.0)?;
        self.topology.remove_pod("A")?;
        self.play(7090.0)
    }

    /// B's pod gets the address (7469 ms), is ready and an endpoint of B's own Service (8885 ms).
    pub fn b_runs(&mut self) -> Result<()> {
        self.play(7200.0)?;
        self.b = Some(self.start_pod("B", "B", ADDRESS)?);
        self.play(9000.0)
    }

    /// A's Job runs again, in a pod at an IP of its own, which is now all that the `EndpointSlice` lists: a controller
    /// that looks at the Service anew leaves the finished pod out (recorded at 10897 ms). The proxy has not heard of it.
    pub fn a_runs_again(&mut self) -> Result<()> {
        let (name, address) = RERUN;
        self.rerun = Some(self.start_pod(name, "A", address.into())?);
        for object in recording::rerun(name, address)? {
            recording::show(&self.store, object)?;
        }
        self.catch_up()
    }

    /// `kubectl annotate`: A's Service asks for this action.
    pub fn ask_for(&mut self, action: &str) -> Result<()> {
        let service = ObjectRef::new(Kind::Service, "domain-a", "report");
        let patch = json!({"metadata": {"annotations": {"epguard.io/action": action}}});
        self.store.patch(&service, &patch)?;
        self.catch_up()
    }

    /// Requests that have reached B's process, whatever their callers saw.
    pub fn requests_at_b(&self) -> u64 {
        self.b.as_ref().map(Server::requests).unwrap_or_default()
    }

    /// `epguard mode`.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.agent.set_mode(mode)
    }

    /// `epguard action`.
    pub fn set_action(&self, action: &str) -> Result<()> {
        self.agent.set_action(action)
    }

    /// A's clients: a pod, a process on the node, and somebody outside of the cluster.
    pub fn callers_of_a(&self) -> Result<Vec<Caller>> {
        let node = self.topology.node("node-a")?;
        let service = SocketAddr::new(CLUSTER_IP.parse()?, 80);
        let caller = |who, from: &str, to| self.caller(who, Team::A, from, to);
        Ok(vec![
            caller("domain-a/client → Service report", "domain-a/client", service)?,
            caller("process on node-a → Service report", "node-a", service)?,
            caller(OUTSIDE, "external", (node.ipv4, NODE_PORT).into())?,
        ])
    }

    /// B's own client, which calls it in both ways.
    pub fn callers_of_b(&self) -> Result<Vec<Caller>> {
        let services = self.objects(Kind::Service, "domain-b");
        let ip = services
            .iter()
            .find_map(|service| service["spec"]["clusterIP"].as_str()?.parse().ok());
        let ip: IpAddr = ip.context("Service domain-b/shop has no cluster IP")?;
        let caller = |who, to| self.caller(who, Team::B, "domain-b/client", to);
        Ok(vec![
            caller("domain-b/client → Service shop", (ip, 80).into())?,
            caller("domain-b/client → IP of pod shop", (ADDRESS, PORT).into())?,
        ])
    }

    /// The namespace's objects, without its client.
    pub fn objects(&self, kind: Kind, namespace: &str) -> Vec<Value> {
        let mut objects = self.store.list(kind);
        objects.retain(|object| {
            object["metadata"]["namespace"] == namespace && object["metadata"]["name"] != "client"
        });
        objects
    }

    fn start_pod(&mut self, name: &str, answer: &str, address: IpAddr) -> Result<Server> {
        let pod = self.topology.add_pod("node-a", name, &[address])?;
        let port = Port {
            protocol: Protocol::Tcp,
            port: PORT,
        };
        Server::start(&pod.netns, answer, &[port])
    }

    /// The API shows what was recorded up to then, and proxy and agent follow.
    fn play(&mut self, until: f64) -> Result<()> {
        self.recording.play(until, &self.store)?;
        let (services, slices) = (
            self.store.list(Kind::Service),
            self.store.list(Kind::EndpointSlice),
        );
        self.proxy.program(&service_rules(&services, &slices, "node-a"))?;
        self.catch_up()
    }

    /// The agent sees all that the API shows.
    fn catch_up(&mut self) -> Result<()> {
        let pods = ["A", "B", RERUN.0, "domain-a/client", "domain-b/client"];
        let links = pods
            .iter()
            .filter_map(|name| Some(&*self.topology.pod(name).ok()?.host_ifname));
        let links: Vec<&str> = links.chain(["eth0"]).collect();
        self.agent.catch_up(&self.store, &links)?;
        Ok(())
    }

    fn caller(&self, who: &'static str, meant: Team, from: &str, to: SocketAddr) -> Result<Caller> {
        let client = Client::new(self.topology.netns(from)?);
        Ok(Caller {
            who,
            meant,
            client,
            to,
        })
    }
}

//! A cluster for one run: nodes and pods on the network, objects in the API, a proxy. The API
//! server has a runtime of its own, since everything else here blocks.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};

use super::balancer::Balancer;
use super::format::{AddressEvent, ApiStep, Call, Caller, NodeServer, Pod, Scenario, Service};
use super::names::{self, CLIENT, Names};
use super::objects::PodObject;
use super::variant::Variant;
use crate::api::{ApiServer, Kind, Store};
use crate::net::{NetNs, PodNet, Topology, TopologyOptions};
use crate::proxy::{Frontend, Proxy, ProxyOptions, ServiceRule, service_rules};
use crate::traffic::{Client, Server};

/// Time between bookmarks of a stream.
const BOOKMARKS: Duration = Duration::from_secs(1);

/// A cluster without the agent. Drop it outside of async code: it owns a tokio runtime.
pub struct Cluster {
    /// Namespaces and links.
    pub topology: Topology,
    /// The objects behind the API.
    pub store: Store,
    /// Addresses, UIDs and objects of the story's names.
    pub names: Names,
    pub(super) cast: BTreeMap<String, Pod>,
    /// It moves by a second with each event: changes of a status are a second apart, however fast
    /// the story runs.
    pub(super) clock: Timestamp,
    pub(super) objects: BTreeMap<String, PodObject>,
    pub(super) servers: BTreeMap<String, Server>,
    pub(super) services: BTreeMap<String, Service>,
    /// Processes of nodes, as the story has them.
    pub(super) node_servers: BTreeMap<String, NodeServer>,
    proxy: Proxy,
    /// In the proxy's place, for callers at sockets and per packet. If it does not serve sockets of
    /// all, the proxy stays.
    pub(super) balancer: Option<Balancer>,
    rules: Vec<ServiceRule>,
    host_ports: Vec<ServiceRule>,
    /// With a kubeconfig for the agent, and faults that stories have no step for.
    pub api: ApiServer,
    /// Whether the agent can see what the store holds.
    pub(super) api_is_back: bool,
    /// Dropped after the API server.
    _runtime: Runtime,
}

impl Cluster {
    /// The nodes, the story's Services, and the client. Needs root.
    pub fn new(scenario: &Scenario, variant: Variant) -> Result<Self> {
        let topology = Topology::new(TopologyOptions {
            cni: variant.cni,
            overlay: variant.overlay,
        })?;
        let store = Store::default();
        let node_a = &topology.node("node-a")?.netns;
        let listener = node_a.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("api")
            .enable_all()
            .build()?;
        let api = runtime.block_on(async { ApiServer::start(listener, store.clone()) })?;
        api.faults(|faults| faults.bookmark_period = Some(BOOKMARKS));
        let options = ProxyOptions {
            masquerade_all: variant.caller == Caller::Masquerade,
        };
        let proxy = Proxy::new(node_a, options);
        let mut cast = scenario.pods.clone();
        cast.insert(CLIENT.into(), names::client(scenario));
        let mut cluster = Self {
            names: Names::new(scenario, variant, &topology)?,
            cast,
            clock: Timestamp::now(),
            objects: BTreeMap::new(),
            servers: BTreeMap::new(),
            services: scenario.services.clone(),
            node_servers: scenario.servers.clone(),
            rules: Vec::new(),
            host_ports: Vec::new(),
            topology,
            store,
            proxy,
            balancer: None,
            api,
            api_is_back: true,
            _runtime: runtime,
        };
        cluster.create_objects(scenario)?;
        cluster.pod_event(CLIENT, super::format::PodEvent::Starts)?;
        Ok(cluster)
    }

    /// Updates the network namespaces and interfaces that the load balancer translates: those that
    /// node-a has now.
    pub fn serve_pods(&mut self) -> Result<()> {
        let node = self.topology.node("node-a")?.netns.clone();
        let pods: Vec<(NetNs, String)> = self
            .local_pods()
            .into_iter()
            .map(|(_, pod)| (pod.netns.clone(), pod.host_ifname.clone()))
            .collect();
        let balancer = self.balancer.as_mut();
        balancer.map_or(Ok(()), |balancer| balancer.serve(&node, &pods))
    }

    /// Stops, stalls or restores the API server. The store behind it goes on.
    pub fn set_api(&mut self, step: ApiStep) {
        self.api.faults(|faults| {
            faults.outage = step == ApiStep::Away;
            faults.hang = step == ApiStep::Stalled;
            faults.cached = (step == ApiStep::Cached).then(|| self.store.revision());
            faults.mute = match step {
                ApiStep::WatchStalled(kind) => [kind].into(),
                ApiStep::Away | ApiStep::Stalled | ApiStep::Cached | ApiStep::Back => [].into(),
            };
        });
        self.api_is_back = step == ApiStep::Back;
    }

    /// The cgroups of pods and of processes of the node, if a load balancer translates sockets.
    pub fn cgroups(&self) -> Option<[PathBuf; 2]> {
        self.balancer.as_ref().map(Balancer::all_cgroups)
    }

    /// Sets the proxy's rules to those that kube-proxy would make of the API now.
    pub fn sync_proxy(&mut self) -> Result<()> {
        self.program(self.wanted_rules())
    }

    /// Sets exactly these backends for these Services; the others keep theirs.
    pub fn set_proxy(&mut self, backends: &BTreeMap<String, Vec<String>>) -> Result<()> {
        backends
            .keys()
            .try_for_each(|service| self.names.service(service).map(drop))?;
        backends
            .values()
            .flatten()
            .try_for_each(|alias| self.names.pod(alias).map(drop))?;
        let mut rules = self.wanted_rules();
        for rule in &mut rules {
            let service = rule.service();
            let declared = backends.get(service).zip(self.services.get(service));
            rule.backends = if let Some((pods, declared)) = declared {
                let mut backends = Vec::new();
                for alias in pods {
                    let pod = self.names.pod(alias)?;
                    if let Some(ip) = pod.other_family
                        && declared.dual_stack
                    {
                        backends.push(SocketAddr::new(ip, declared.target_port));
                    }
                    let ip = pod.address(declared, None)?;
                    backends.push(SocketAddr::new(ip, declared.target_port));
                }
                backends
            } else {
                let old = self.rules.iter().find(|old| old.name == rule.name);
                old.map(|old| old.backends.clone()).unwrap_or_default()
            };
        }
        self.program(rules)
    }

    /// Sets exactly these hostPorts of node-a, each with the pod that its rule leads to. They are
    /// not masqueraded.
    pub fn set_host_ports(&mut self, ports: &BTreeMap<u16, String>) -> Result<()> {
        let mut rules = Vec::new();
        for (port, alias) in ports {
            let ip = self.names.pod(alias)?.ip;
            let inside = self.cast[alias].ports.first();
            let inside = *inside.context("a pod with a hostPort needs a port")?;
            let backends = vec![SocketAddr::new(ip, inside)];
            rules.push(ServiceRule {
                name: format!("hostPort/{port}:"),
                frontends: vec![Frontend::NodePort {
                    family: ip,
                    port: *port,
                }],
                local: Some(backends.clone()),
                backends,
                ..ServiceRule::default()
            });
        }
        self.host_ports = rules;
        self.program(self.rules.clone())
    }

    /// Makes an event happen to an address at node-a's uplink.
    pub fn address_event(&self, name: &str, event: AddressEvent) -> Result<()> {
        let node = self.topology.node("node-a")?;
        let ip = self.names.address(name)?;
        match event {
            AddressEvent::Added => node.add_address(ip),
            AddressEvent::Removed => node.remove_address(ip),
        }
    }

    /// Clients on a host. Where there is a load balancer at sockets, those on node-a make theirs in
    /// its cgroups, or in those that the call names.
    pub fn client(&self, host: &str, call: Option<&Call>) -> Result<Client> {
        let host = self.host(host);
        let client = Client::new(self.topology.netns(host)?)
            .sending(call.and_then(|call| call.size).unwrap_or_default());
        let is_local =
            host == "node-a" || self.local_pods().iter().any(|(alias, _)| *alias == host);
        Ok(match &self.balancer {
            Some(balancer) if is_local => client.in_cgroups(balancer.cgroups(host, call)?),
            _ => client,
        })
    }

    /// The host of calls from here: a pod of the host network makes them as its node.
    fn host<'a>(&'a self, from: &'a str) -> &'a str {
        match self.cast.get(from) {
            Some(pod) if pod.host_network => &pod.node,
            _ => from,
        }
    }

    /// The network namespace of a pod, a node or `external`.
    pub fn netns(&self, from: &str) -> Result<&NetNs> {
        self.topology.netns(self.host(from))
    }

    /// The backends that the rules have for a Service; none if they do not have the Service.
    pub fn backends(&self, service: &str) -> Option<Vec<SocketAddr>> {
        let mut rules = self
            .rules
            .iter()
            .filter(|rule| rule.service() == service)
            .peekable();
        rules.peek()?;
        Some(
            rules
                .flat_map(|rule| rule.backends.iter().copied())
                .collect(),
        )
    }

    /// Pods that are on node-a now, by their names in the story.
    pub fn local_pods(&self) -> Vec<(&str, &PodNet)> {
        let pods = self.topology.pods();
        pods.filter(|(_, pod)| pod.node == "node-a").collect()
    }

    /// Links on node-a that lead to pods.
    pub fn links(&self) -> Vec<&str> {
        let pods = self.local_pods().into_iter();
        let links = pods.flat_map(|(_, pod)| {
            pod.net1
                .iter()
                .map(|(_, link)| link)
                .chain([&pod.host_ifname])
        });
        links.map(|link| &**link).collect()
    }

    fn wanted_rules(&self) -> Vec<ServiceRule> {
        service_rules(
            &self.store.list(Kind::Service),
            &self.store.list(Kind::EndpointSlice),
            "node-a",
        )
    }

    fn program(&mut self, rules: Vec<ServiceRule>) -> Result<()> {
        if let Some(balancer) = &mut self.balancer {
            balancer.lb.program(&rules)?;
        }
        if self
            .balancer
            .as_ref()
            .is_none_or(|balancer| balancer.packets.is_some())
        {
            self.proxy
                .program(&[&rules[..], &self.host_ports].concat())?;
        }
        self.rules = rules;
        Ok(())
    }
}

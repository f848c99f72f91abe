//! An agent, a proxy and an API server on node-b, beside those of the stage on node-a. The API
//! server has the same objects; each listens on its own node's loopback.

use epguard_lab::agent::{AgentProcess, Place};
use epguard_lab::api::{ApiServer, Kind};
use epguard_lab::net::NetNs;
use epguard_lab::process;
use epguard_lab::proxy::{Proxy, ProxyOptions, service_rules};
use epguard_lab::scenario::stage::Stage;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// Dropped in this order: the agent before the server that it watches.
pub(super) struct SecondNode {
    _agent: AgentProcess,
    _api: ApiServer,
    _runtime: Runtime,
    proxy: Proxy,
    pub(super) netns: NetNs,
    /// Where the agent has its socket.
    pub(super) run_dir: PathBuf,
}

impl SecondNode {
    /// Starts an agent with this mode, and waits until it has seen all objects.
    pub(super) fn start(stage: &Stage, mode: &str) -> Self {
        let netns = stage.cluster.topology.node("node-b").unwrap().netns.clone();
        let listener = netns
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let store = stage.cluster.store.clone();
        let api = runtime.block_on(async { ApiServer::start(listener, store).unwrap() });
        let run_dir = stage.workdir.path.join("node-b");
        std::fs::create_dir(&run_dir).unwrap();
        let place = Place {
            node: "node-b",
            kubeconfig: &api.kubeconfig(),
            run_dir: &run_dir,
            pin_dir: &stage.workdir.pins().join("node-b"),
        };
        let mut command = netns.command(process::epguard().unwrap());
        command
            .args(place.arguments().unwrap())
            .args(["--mode", mode, "--clsact-delay", "0"]);
        let mut agent = AgentProcess::start(command, &run_dir).unwrap();
        agent
            .until("did not see all objects", |status| {
                (!status.synced).then(|| "not synced".into())
            })
            .unwrap();
        Self {
            _agent: agent,
            _api: api,
            _runtime: runtime,
            proxy: Proxy::new(&netns, ProxyOptions::default()),
            netns,
            run_dir,
        }
    }

    /// Gives the proxy the rules for the objects of now.
    pub(super) fn sync_proxy(&self, stage: &Stage) {
        let [services, slices] =
            [Kind::Service, Kind::EndpointSlice].map(|kind| stage.cluster.store.list(kind));
        let rules = service_rules(&services, &slices, "node-b");
        self.proxy.program(&rules).unwrap();
    }
}

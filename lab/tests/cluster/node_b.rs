//! What node-b needs for an agent beside that of node-a: an API server and a proxy. The API server
//! has the same objects; each listens on its own node's loopback.

use epguard_lab::api::{ApiServer, Kind};
use epguard_lab::net::NetNs;
use epguard_lab::proxy::{Proxy, ProxyOptions, service_rules};
use epguard_lab::scenario::cluster::Cluster;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::runtime::{Builder, Runtime};

/// Dropped in this order: the server before its runtime.
pub(crate) struct NodeB {
    pub(crate) api: ApiServer,
    _runtime: Runtime,
    proxy: Proxy,
    pub(crate) netns: NetNs,
}

impl NodeB {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let netns = cluster.topology.node("node-b").unwrap().netns.clone();
        let listener = netns
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let store = cluster.store.clone();
        let api = runtime.block_on(async { ApiServer::start(listener, store).unwrap() });
        Self {
            api,
            _runtime: runtime,
            proxy: Proxy::new(&netns, ProxyOptions::default()),
            netns,
        }
    }

    /// Gives the proxy the rules for the objects of now.
    pub(crate) fn sync_proxy(&self, cluster: &Cluster) {
        let services = cluster.store.list(Kind::Service);
        let slices = cluster.store.list(Kind::EndpointSlice);
        let rules = service_rules(&services, &slices, "node-b");
        self.proxy.program(&rules).unwrap();
    }
}

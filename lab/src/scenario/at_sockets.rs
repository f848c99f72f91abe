//! A cluster whose cluster IPs a load balancer at sockets translates.

use std::path::Path;

use anyhow::Result;

use super::balancer::Balancer;
use super::cluster::Cluster;
use crate::net::NetNs;

impl Cluster {
    /// Replaces the proxy by a load balancer at sockets, which is not started yet. If it does not serve pods, the proxy stays.
    pub fn balance_at_sockets(&mut self, pins: &Path, serves_pods: bool) -> Result<()> {
        self.balancer = Some(Balancer::new(pins, serves_pods)?);
        self.serve_sockets()
    }

    /// Updates the network namespaces that the load balancer translates: those that node-a has now.
    pub(super) fn serve_sockets(&mut self) -> Result<()> {
        let Some(balancer) = &self.balancer else {
            return Ok(());
        };
        let serves_pods = balancer.serves_pods();
        let node = self.topology.node("node-a")?.netns.clone();
        let pods = self.local_pods().into_iter().filter(|_| serves_pods);
        let pods = pods.map(|(_, pod)| pod.netns.clone());
        let namespaces: Vec<NetNs> = pods.chain([node]).collect();
        let namespaces: Vec<&NetNs> = namespaces.iter().collect();
        self.balancer
            .as_mut()
            .map_or(Ok(()), |balancer| balancer.serve(&namespaces))
    }
}

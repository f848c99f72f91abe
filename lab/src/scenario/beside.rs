//! The neighbour of a story on its stage.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};

use super::cluster::Cluster;
use super::format::{Forbidden, NeighbourStep, Scenario};
use super::variant::Variant;
use crate::neighbour::{Flow, Kind, Neighbour, Plan};
use crate::net::NetNs;

/// The neighbour that the story has in this variant, not started yet.
pub(super) fn neighbour(
    scenario: &Scenario,
    variant: Variant,
    hooks: Option<&str>,
    cluster: &Cluster,
    pins: &Path,
) -> Result<Option<Neighbour>> {
    let Some(declared) = &scenario.neighbour else {
        return Ok(None);
    };
    let kind = variant.neighbour.or(declared.kind);
    let priority = declared.priority.unwrap_or(1);
    let plan = Plan {
        kind: kind.context("the story's neighbour has no kind")?,
        clears: declared.clears,
        clsact_priority: (hooks == Some("clsact")).then_some(priority),
    };
    let node = &cluster.topology.node("node-a")?.netns;
    Ok(Some(Neighbour::new(plan, node, &pins.join("neighbour"))))
}

/// Makes a step happen to the neighbour.
pub(super) fn happen(
    neighbour: &mut Neighbour,
    step: NeighbourStep,
    forbids: &[Forbidden],
    cluster: &Cluster,
) -> Result<()> {
    match step {
        NeighbourStep::Killed => neighbour.kill(),
        NeighbourStep::Stops => neighbour.stop()?,
        NeighbourStep::Starts | NeighbourStep::Restarts => {
            // Links of removed interfaces cannot be taken over.
            hook(neighbour, cluster)?;
            neighbour.start()?;
            let flows = forbids.iter().map(|forbidden| flow(forbidden, cluster));
            neighbour.forbid(&flows.collect::<Result<Vec<_>>>()?)?;
            hook(neighbour, cluster)?;
        }
    }
    Ok(())
}

/// Hooks the pods of node-a, and drops the entries of removed ones.
pub(super) fn hook(neighbour: &mut Neighbour, cluster: &Cluster) -> Result<()> {
    let pods = cluster.local_pods();
    let interfaces: Vec<(&str, &NetNs)> = pods
        .iter()
        .map(|(_, pod)| (&*pod.host_ifname, &pod.netns))
        .collect();
    neighbour.hook(&interfaces)?;
    if neighbour.kind() != Kind::HostRouting || !neighbour.is_attached() {
        return Ok(());
    }
    let node = &cluster.topology.node("node-a")?.netns;
    let mut routes = BTreeMap::new();
    for (alias, pod) in &pods {
        let ifindex = node.run(|| nix::net::if_::if_nametoindex(&*pod.host_ifname))??;
        for (ip, port) in pod.ips.iter().flat_map(|ip| {
            let ports = &cluster.cast[*alias].ports;
            ports.iter().map(move |port| (*ip, *port))
        }) {
            routes.insert(SocketAddr::new(ip, port), ifindex);
        }
    }
    neighbour.route(&routes)
}

fn flow(forbidden: &Forbidden, cluster: &Cluster) -> Result<Flow> {
    let to = match cluster.service(&forbidden.to) {
        Some(service) => SocketAddr::new(cluster.names.service(&forbidden.to)?.vip, service.port),
        None => SocketAddr::new(
            cluster.names.address(&forbidden.to)?,
            forbidden.port.unwrap_or(8080),
        ),
    };
    Ok(Flow {
        from: sender(&forbidden.from, to.is_ipv4(), cluster)?,
        to,
    })
}

/// The source address of packets from a host to a pod of node-a.
fn sender(host: &str, ipv4: bool, cluster: &Cluster) -> Result<IpAddr> {
    match host {
        "node-a" => Ok(cluster.topology.node(host)?.ip(ipv4)),
        "external" => cluster.topology.external_ip(ipv4),
        pod => cluster.names.address(pod),
    }
}

//! The neighbour of a story on its stage.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cluster::Cluster;
use super::format::{Call, Forbidden, NeighbourStep, Scenario};
use super::variant::Variant;
use crate::neighbour::{Flow, Kind, Neighbour, Plan, Verdicts};
use crate::net::NetNs;
use crate::wait;

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

/// Checks the neighbour's verdicts since `before` on one call, which it must drop if `is_forbidden`: they must be the same as
/// without epguard. The story's proxy marks no packets, and without epguard no packet has a `tc_index`.
pub(super) fn check(neighbour: &Neighbour, call: &Call, is_forbidden: bool, before: Verdicts) -> Result<()> {
    let least = if is_forbidden { u64::from(call.times) } else { 0 };
    // A packet is counted when its client has its answer, or a moment later.
    wait::until(Duration::from_millis(5), || {
        let now = neighbour.verdicts()?;
        ensure!(
            now.skipped == 0,
            "a packet carries a mark that switches the neighbour's policy off; its policy: before {before}, now {now}"
        );
        ensure!(
            is_forbidden || now.forbidden == before.forbidden,
            "the neighbour's policy drops what the story does not forbid: before {before}, now {now}"
        );
        Ok(wait::holds(now.forbidden >= before.forbidden + least, || {
            format!("the neighbour's policy has not dropped {least}; its policy: before {before}, now {now}")
        }))
    })?;
    let marked: Vec<String> = (neighbour.arrived()?.iter())
        .filter(|(tc_index, _)| **tc_index != 0)
        .map(|(tc_index, packets)| format!("{packets} with {tc_index:#06x}"))
        .collect();
    ensure!(
        marked.is_empty(),
        "packets arrive in pods with a tc_index that only epguard writes: {}",
        marked.join(", ")
    );
    Ok(())
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

//! The nodes on the way of a packet: the client's, and that of the pod that has the endpoint's IP.

use super::agents::{Fleet, all};
use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Leaves only the nodes on the way, and names them. Where the client's is not known, all nodes stay.
pub async fn narrow(fleet: &mut Fleet, client: IpAddr, endpoint: IpAddr) -> String {
    let [from, to] = match (node(fleet, client).await, node(fleet, endpoint).await) {
        (Ok(from), Ok(to)) => [from, to],
        (Err(why), _) | (_, Err(why)) => return format!("asked all nodes: {why:#}"),
    };
    let Some(from) = from else {
        return format!("asked all nodes: no pod and no node has {client}");
    };
    let end = match &to {
        Some(to) => format!(", and {to}, where {endpoint} is"),
        None => format!("; no pod has {endpoint}"),
    };
    let words = format!("asked {from}, where {client} is{end}");
    let way: BTreeSet<String> = to.into_iter().chain([from]).collect();
    let without: Vec<String> = way.iter().filter(|node| !fleet.has(node)).cloned().collect();
    fleet.without.extend(without);
    fleet.agents.retain(|agent| way.contains(&agent.node));
    words
}

/// The node of the pod with this IP, or the node with it. Errors: they may not be listed.
async fn node(fleet: &Fleet, ip: IpAddr) -> Result<Option<String>> {
    let (client, form) = (&fleet.client, fleet.scope.output);
    let with_ip = ListParams::default().fields(&format!("status.podIP={ip}"));
    let pods: Vec<Pod> = all(Api::all(client.clone()), with_ip, form).await?;
    let mut living = pods.iter().filter(|pod| lives(pod));
    if let Some(node) = living.find_map(|pod| pod.spec.as_ref()?.node_name.clone()) {
        return Ok(Some(node));
    }
    let nodes: Vec<Node> = all(Api::all(client.clone()), ListParams::default(), form).await?;
    let mut with_ip = nodes.iter().filter(|node| has(node, ip));
    Ok(with_ip.next().map(kube::ResourceExt::name_any))
}

/// A pod that has finished shows its old IP.
fn lives(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn has(node: &Node, ip: IpAddr) -> bool {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    let mut addresses = addresses.into_iter().flatten();
    addresses.any(|one| one.address.parse() == Ok(ip))
}

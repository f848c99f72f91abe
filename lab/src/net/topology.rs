//! The cluster's network: two nodes and an external host on one fabric, and the pods on the nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};

use super::NetNs;

/// How a node attaches its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cni {
    /// A veth pair per pod, with host routes to the pod's addresses and a link-local gateway (Calico, Cilium, GKE, AWS).
    #[default]
    Ptp,
    /// A Linux bridge `cni0` that holds the gateway address, with `br_netfilter` on (flannel, kubenet).
    Bridge,
}

/// How a node reaches the pods of the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlay {
    /// Plain routes over the uplink.
    #[default]
    None,
    /// A VXLAN device `flannel.1` over the uplink.
    Vxlan,
}

/// What [`Topology::new`] builds.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TopologyOptions {
    /// How pods are attached.
    pub cni: Cni,
    /// How nodes reach each other's pods.
    pub overlay: Overlay,
}

/// Two nodes (`node-a`, `node-b`) and the host `external`, which is also everybody's default gateway.
///
/// Dropping it removes every namespace, link and rule in it.
#[derive(Debug)]
pub struct Topology {
    options: TopologyOptions,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, PodNet>,
    external: NetNs,
}

/// A node: its network namespace and addresses. Its uplink is `eth0`.
#[derive(Debug)]
pub struct Node {
    /// `node-a` or `node-b`.
    pub name: String,
    /// The host network namespace.
    pub netns: NetNs,
    /// The node's IPv4 address, 192.168.250.11 or .12.
    pub ipv4: Ipv4Addr,
    /// The node's IPv6 address, `fd00:250::11` or `::12`.
    pub ipv6: Ipv6Addr,
}

/// The network side of a pod sandbox.
#[derive(Debug)]
pub struct PodNet {
    /// The caller's name for the pod, usually `namespace/name`.
    pub name: String,
    /// The node that the pod is on.
    pub node: String,
    /// The pod's addresses.
    pub ips: Vec<IpAddr>,
    /// The node's end of the pod's veth pair.
    pub host_ifname: String,
    /// The pod's network namespace, where its `eth0` is.
    pub netns: NetNs,
}

impl Topology {
    /// Builds the nodes, the external host and the links between them; removes leftovers of processes that no longer run.
    /// Needs root.
    pub fn new(options: TopologyOptions) -> Result<Self> {
        let _ = options;
        todo!()
    }

    /// Makes a sandbox for a pod on `node` and attaches it; the addresses work when this returns. They must lie in the node's
    /// pod CIDRs, 10.244.1.0/24 and `fd00:10:244:1::/64` for `node-a`, 10.244.2.0/24 and `fd00:10:244:2::/64` for `node-b`,
    /// and may belong to another pod at the same time: the last one attached gets the traffic.
    pub fn add_pod(&mut self, node: &str, name: &str, ips: &[IpAddr]) -> Result<&PodNet> {
        let _ = (node, ips, self.options);
        self.pod(name)
    }

    /// Detaches a pod: its veth pair and routes are gone when this returns; sockets still open in it send nothing more.
    pub fn remove_pod(&mut self, name: &str) -> Result<()> {
        self.pods
            .remove(name)
            .with_context(|| format!("there is no pod {name} to remove"))?;
        Ok(())
    }

    /// The pod of this name.
    pub fn pod(&self, name: &str) -> Result<&PodNet> {
        self.pods
            .get(name)
            .with_context(|| format!("there is no pod {name}; add it first"))
    }

    /// The node of this name, `node-a` or `node-b`.
    pub fn node(&self, name: &str) -> Result<&Node> {
        self.nodes
            .get(name)
            .with_context(|| format!("there is no node {name}; there are node-a and node-b"))
    }

    /// The network namespace of a node (`node-a`, `node-b`), of `external` or of a pod (by its name).
    pub fn netns(&self, host: &str) -> Result<&NetNs> {
        match host {
            "external" => Ok(&self.external),
            _ => self
                .nodes
                .get(host)
                .map(|node| &node.netns)
                .map_or_else(|| Ok(&self.pod(host)?.netns), Ok),
        }
    }

    /// The host outside of the cluster, 192.168.250.1 and `fd00:250::1`. It sends whatever it doesn't know to `node-a`.
    pub fn external(&self) -> &NetNs {
        &self.external
    }
}

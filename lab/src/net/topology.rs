//! The cluster's network: two nodes and an external host on one fabric, and the pods on the nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};

use super::ip::wait_until_ready;
use super::node::VXLAN;
use super::{NetNs, Node, Overlay, PodNet, TopologyOptions, cni, fabric, netns, sysctl};

/// Two nodes (`node-a`, `node-b`) and the host `external`, which is also every node's default gateway.
///
/// Dropping it removes every namespace, link and rule in it.
#[derive(Debug)]
pub struct Topology {
    options: TopologyOptions,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, PodNet>,
    external: NetNs,
    _fabric: NetNs,
}

impl Topology {
    /// Builds the nodes, the external host and the links between them; removes leftovers of processes that no longer run.
    /// Needs root.
    pub fn new(options: TopologyOptions) -> Result<Self> {
        netns::remove_leftovers();
        let (a, b) = (Node::new(1, "node-a")?, Node::new(2, "node-b")?);
        let external = NetNs::new("external")?;
        sysctl::host(&external)?;
        let hosts = [
            ("node-a", &a.netns),
            ("node-b", &b.netns),
            ("external", &external),
        ];
        let fabric = fabric::connect(&hosts)?;
        a.configure(&b, options)?;
        b.configure(&a, options)?;
        fabric::configure_external(&external, a.ipv4, a.ipv6)?;
        fabric::wait(&fabric, &hosts)?;
        if options.overlay == Overlay::Vxlan {
            wait_until_ready(&a.netns, &[VXLAN])?;
            wait_until_ready(&b.netns, &[VXLAN])?;
        }
        let nodes = [a, b].into_iter().map(|node| (node.name.clone(), node)).collect();
        Ok(Self {
            options,
            nodes,
            pods: BTreeMap::new(),
            external,
            _fabric: fabric,
        })
    }

    /// Makes a sandbox for a pod on `node` and attaches it; the addresses work when this returns. They must lie in the node's
    /// pod CIDRs, 10.244.1.0/24 and `fd00:10:244:1::/64` for `node-a`, 10.244.2.0/24 and `fd00:10:244:2::/64` for `node-b`,
    /// and may belong to another pod at the same time: the last one attached gets the traffic.
    pub fn add_pod(&mut self, node: &str, name: &str, ips: &[IpAddr]) -> Result<&PodNet> {
        ensure!(
            !self.pods.contains_key(name),
            "there is a pod {name} already; remove it first or choose another name"
        );
        let node = self.node(node)?;
        if let Some(ip) = ips.iter().find(|ip| !node.has_in_pod_cidr(**ip)) {
            let [v4, v6] = node.pod_cidrs().map(|(base, length)| format!("{base}/{length}"));
            let node = &node.name;
            anyhow::bail!("{ip} of pod {name} is in no pod CIDR of {node}; take one of {v4} or {v6}");
        }
        let pod = cni::attach(node, name, ips, self.options)?;
        Ok(self.pods.entry(name.to_owned()).or_insert(pod))
    }

    /// Detaches a pod: its veth pair and routes are gone when this returns; sockets still open in it send nothing more.
    pub fn remove_pod(&mut self, name: &str) -> Result<()> {
        let pod = self
            .pods
            .remove(name)
            .with_context(|| format!("there is no pod {name} to remove"))?;
        cni::detach(self.node(&pod.node)?, &pod)
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
                .map_or_else(|| Ok(&self.pod(host)?.netns), |node| Ok(&node.netns)),
        }
    }

    /// The interfaces that lead out of a node.
    #[must_use]
    pub fn uplinks(&self) -> &'static [&'static str] {
        match self.options.overlay {
            Overlay::None => &["eth0"],
            Overlay::Vxlan => &["eth0", VXLAN],
        }
    }

    /// The host outside of the cluster, 192.168.250.1 and `fd00:250::1`. It sends packets to unknown addresses to `node-a`.
    pub fn external(&self) -> &NetNs {
        &self.external
    }

    /// The external host's address of a family.
    pub fn external_ip(&self, ipv4: bool) -> Result<IpAddr> {
        let text = if ipv4 {
            fabric::GATEWAY_V4
        } else {
            fabric::GATEWAY_V6
        };
        Ok(text.parse()?)
    }
}

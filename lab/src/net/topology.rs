//! The cluster's network: three nodes and an external host on one fabric, and the pods on the
//! nodes.

use super::ip::{Batch, wait_until_ready};
use super::node::VXLAN;
use super::{NetNs, Node, PodNet, cni, netns, sysctl};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use strum::Display;

/// How a node attaches its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Cni {
    /// A veth pair per pod, with host routes to the pod's addresses and a link-local gateway, as
    /// Calico does it.
    #[default]
    Ptp,
    /// A Linux bridge `cni0` that holds the gateway address, with `br_netfilter` on, as flannel
    /// does it.
    Bridge,
    /// As [`Cni::Bridge`] with `br_netfilter` off: netfilter sees no packet that only crosses the
    /// bridge.
    BridgeWithoutNetfilter,
    /// As [`Cni::Bridge`], and the bridge floods frames to pods to all its ports, as it does while
    /// it has no entry for a pod's link-layer address.
    BridgeFloods,
}

impl Cni {
    /// Whether pods are at a bridge.
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Self::Ptp)
    }
}

/// How a node reaches the pods of the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Overlay {
    /// Plain routes over the uplink.
    #[default]
    None,
    /// A VXLAN device `flannel.1` over the uplink.
    Vxlan,
    /// The same; the one of node-a has no key and no remote address of its own (`external`), and
    /// its routes give them to packets. Reverse paths are filtered loosely.
    VxlanKeyed,
}

impl Overlay {
    /// Whether nodes reach each other's pods by a VXLAN device.
    pub const fn is_vxlan(self) -> bool {
        matches!(self, Self::Vxlan | Self::VxlanKeyed)
    }
}

/// What [`Topology::new`] builds.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopologyOptions {
    /// How pods are attached.
    pub cni: Cni,
    /// How nodes reach each other's pods.
    pub overlay: Overlay,
}

/// Three nodes (`node-a`, `node-b`, `node-c`) and the host `external`, which is also every node's
/// default gateway.
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
    /// Builds the nodes, the external host and the links between them; removes leftovers of
    /// processes that no longer run. Needs root.
    pub fn new(options: TopologyOptions) -> Result<Self> {
        netns::remove_leftovers();
        let nodes = [
            Node::new(1, "node-a")?,
            Node::new(2, "node-b")?,
            Node::new(3, "node-c")?,
        ];
        let external = NetNs::new("external")?;
        sysctl::write(&external, &[sysctl::HOST])?;
        let [a, b, c] = &nodes;
        let hosts = [
            ("node-a", &a.netns),
            ("node-b", &b.netns),
            ("node-c", &c.netns),
            ("external", &external),
        ];
        let fabric = connect(&hosts)?;
        for node in &nodes {
            let peers: Vec<&Node> = nodes.iter().filter(|peer| peer.name != node.name).collect();
            node.configure(&peers, options)?;
        }
        configure_external(&external, a.ipv4, a.ipv6)?;
        // The ports forward once the hosts' ends are up.
        hosts
            .iter()
            .try_for_each(|(_, host)| wait_until_ready(host, &["eth0"]))?;
        wait_until_ready(&fabric, &hosts.map(|(port, _)| port))?;
        if options.overlay.is_vxlan() {
            wait_until_ready(&a.netns, &[VXLAN])?;
            wait_until_ready(&b.netns, &[VXLAN])?;
        }
        let nodes = nodes
            .into_iter()
            .map(|node| (node.name.clone(), node))
            .collect();
        Ok(Self {
            options,
            nodes,
            pods: BTreeMap::new(),
            external,
            _fabric: fabric,
        })
    }

    /// All pods, by their names.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &PodNet)> {
        self.pods.iter().map(|(name, pod)| (&**name, pod))
    }

    /// Makes a sandbox for a pod on `node` and attaches it; the addresses work when this returns.
    /// On a bridge they must lie in the node's pod CIDRs, 10.244.1.0/24 and `fd00:10:244:1::/64`
    /// for `node-a`, `.2.` and `:2:` for `node-b`, and so on; else the other nodes get a route to
    /// one that does not. They may belong to another pod at the same time: the last one attached
    /// gets the traffic.
    pub fn add_pod(&mut self, node: &str, name: &str, ips: &[IpAddr]) -> Result<&PodNet> {
        ensure!(
            !self.pods.contains_key(name),
            "there is a pod {name} already; remove it first or choose another name"
        );
        let node = self.node(node)?;
        let foreign = ips.iter().find(|ip| !node.has_in_pod_cidr(**ip));
        if let (true, Some(ip)) = (self.options.cni.is_bridge(), foreign) {
            let [v4, v6] = node
                .pod_cidrs()
                .map(|(base, length)| format!("{base}/{length}"));
            let node = &node.name;
            anyhow::bail!(
                "{ip} of pod {name} is in no pod CIDR of {node}; take one of {v4} or {v6}"
            );
        }
        let pod = cni::attach(node, name, ips, self.options)?;
        self.route_elsewhere(&pod.node, &pod.ips, "replace")?;
        Ok(self.pods.entry(name.to_owned()).or_insert(pod))
    }

    /// Gives a pod a second interface, `net1`, with this address, as Multus does.
    pub fn add_interface(&mut self, name: &str, ip: IpAddr) -> Result<()> {
        let pod = self.pod(name)?;
        let net1 = cni::attach_net1(self.node(&pod.node)?, pod, ip)?;
        self.route_elsewhere(&pod.node, &[ip], "replace")?;
        if let Some(pod) = self.pods.get_mut(name) {
            pod.net1 = Some((ip, net1));
        }
        Ok(())
    }

    /// Detaches a pod: its veth pairs and routes are gone when this returns; sockets still open in
    /// it send nothing more.
    pub fn remove_pod(&mut self, name: &str) -> Result<()> {
        let pod = self
            .pods
            .remove(name)
            .with_context(|| format!("there is no pod {name} to remove"))?;
        self.route_elsewhere(&pod.node, &pod.ips, "delete")?;
        let net1: Vec<IpAddr> = pod.net1.iter().map(|(ip, _)| *ip).collect();
        self.route_elsewhere(&pod.node, &net1, "delete")?;
        cni::detach(self.node(&pod.node)?, &pod)
    }

    /// Adds or deletes the other nodes' routes to a node's addresses that are not of its pod CIDRs.
    fn route_elsewhere(&self, home: &str, ips: &[IpAddr], verb: &str) -> Result<()> {
        let home = self.node(home)?;
        for ip in ips.iter().filter(|ip| !home.has_in_pod_cidr(**ip)) {
            for other in self.nodes.values().filter(|other| other.name != home.name) {
                let route = format!("route {verb} {ip} via {}", home.ip(ip.is_ipv4()));
                other.netns.ip(&[&route])?;
            }
        }
        Ok(())
    }

    /// The pod of this name.
    pub fn pod(&self, name: &str) -> Result<&PodNet> {
        self.pods
            .get(name)
            .with_context(|| format!("there is no pod {name}; add it first"))
    }

    /// The node of this name, `node-a`, `node-b` or `node-c`.
    pub fn node(&self, name: &str) -> Result<&Node> {
        self.nodes.get(name).with_context(|| {
            format!("there is no node {name}; there are node-a, node-b and node-c")
        })
    }

    /// The network namespace of a node, of `external` or of a pod (by its name).
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
    pub fn uplinks(&self) -> &'static [&'static str] {
        match self.options.overlay {
            Overlay::None => &["eth0"],
            Overlay::Vxlan | Overlay::VxlanKeyed => &["eth0", VXLAN],
        }
    }

    /// The external host's address of a family, 192.168.250.1 or `fd00:250::1`. It sends packets to
    /// unknown addresses to `node-a`.
    pub fn external_ip(&self, ipv4: bool) -> Result<IpAddr> {
        let text = if ipv4 { GATEWAY_V4 } else { GATEWAY_V6 };
        Ok(text.parse()?)
    }
}

/// The external host, every node's default gateway. It forwards nothing.
pub(super) const GATEWAY_V4: &str = "192.168.250.1";
/// Its IPv6 address.
pub(super) const GATEWAY_V6: &str = "fd00:250::1";

/// Makes a namespace with a bridge, and gives each host an `eth0` that is plugged into it. Its
/// ports have the hosts' names.
fn connect(hosts: &[(&str, &NetNs)]) -> Result<NetNs> {
    let fabric = NetNs::new("fabric")?;
    sysctl::write(&fabric, &[sysctl::HOST])?;
    let mut batch = Batch::default();
    batch
        .add("link add fabric type bridge mcast_snooping 0")
        .add("link set fabric up");
    for (port, host) in hosts {
        batch.add(format!(
            "link add {port} type veth peer name eth0 netns {}",
            host.name()
        ));
        batch.add(format!("link set {port} master fabric up"));
    }
    batch.run(&fabric)?;
    Ok(fabric)
}

/// Gives the external host its addresses. It sends packets to unknown destinations, such as a
/// load-balancer IP, to `node-a`.
fn configure_external(external: &NetNs, node_v4: Ipv4Addr, node_v6: Ipv6Addr) -> Result<()> {
    let mut batch = Batch::default();
    batch.add("link set lo up").add("link set eth0 up");
    batch.add(format!("address add {GATEWAY_V4}/24 dev eth0"));
    batch.add(format!("address add {GATEWAY_V6}/64 dev eth0 nodad"));
    batch.add(format!("route add default via {node_v4}"));
    batch.add(format!("route add default via {node_v6}"));
    batch.run(external)
}

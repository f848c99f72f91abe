//! Attaches pods to their node and detaches them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;

use super::ip::{Batch, wait_until_ready};
use super::node::{BRIDGE, flags};
use super::{Cni, NetNs, Node, TopologyOptions, sysctl};
use crate::process;

/// The address of the node's end of every veth pair of [`Cni::Ptp`], as with Calico.
const HOST_MAC: &str = "ee:ee:ee:ee:ee:ee";
/// The gateways of a pod on [`Cni::Ptp`]. No interface has these addresses; a permanent neighbour
/// entry leads to the node.
const LINK_LOCAL_GATEWAYS: [&str; 2] = ["169.254.1.1", "fe80::1"];

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
    /// The address of its second interface, and the node's end of that pair.
    pub net1: Option<(IpAddr, String)>,
    /// The pod's network namespace, where its `eth0` is.
    pub netns: NetNs,
}

/// Makes a sandbox with these addresses, which are usable when this returns.
pub(super) fn attach(
    node: &Node,
    name: &str,
    ips: &[IpAddr],
    options: TopologyOptions,
) -> Result<PodNet> {
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let netns = NetNs::new(name)?;
    sysctl::write(&netns, &[sysctl::HOST, sysctl::POD])?;
    let pod = PodNet {
        name: name.to_owned(),
        node: node.name.clone(),
        ips: ips.to_vec(),
        host_ifname: format!("veth{serial:08x}"),
        net1: None,
        netns,
    };
    let mut host = Batch::default();
    let mut sandbox = Batch::default();
    let [_, b1, b2, b3] = serial.to_be_bytes();
    let mac = format!("0a:58:00:{b1:02x}:{b2:02x}:{b3:02x}");
    // A VXLAN header takes 50 bytes.
    let mtu = if options.overlay.is_vxlan() {
        1450
    } else {
        1500
    };
    let link = &pod.host_ifname;
    let peer = pod.netns.name();
    host.add(format!(
        "link add {link} mtu {mtu} type veth peer name eth0 address {mac} mtu {mtu} netns {peer}"
    ));
    sandbox.add("link set lo up");
    if options.cni.is_bridge() {
        let learns = options.cni != Cni::BridgeFloods;
        bridge(&pod, node, learns, &mut host, &mut sandbox);
    } else {
        ptp(&pod.host_ifname, "eth0", &pod.ips, &mut host, &mut sandbox);
    }
    host.run(&node.netns)?;
    sandbox.run(&pod.netns)?;
    if options.cni.is_bridge() {
        wait_until_ready(&node.netns, &[link, BRIDGE])?;
        announce(&pod, &mac)?;
    } else {
        wait_until_ready(&node.netns, &[link])?;
    }
    Ok(pod)
}

/// Attaches a pod's second interface; returns the node's end of its pair. What it has received is
/// answered there.
pub(super) fn attach_net1(node: &Node, pod: &PodNet, ip: IpAddr) -> Result<String> {
    let link = pod.host_ifname.replace("veth", "vnet");
    let mut host = Batch::default();
    let mut sandbox = Batch::default();
    let peer = pod.netns.name();
    host.add(format!(
        "link add {link} type veth peer name net1 netns {peer}"
    ));
    ptp(&link, "net1", &[ip], &mut host, &mut sandbox);
    host.run(&node.netns)?;
    sandbox.run(&pod.netns)?;
    let family = if ip.is_ipv4() { "-4" } else { "-6" };
    let from = ip.to_string();
    let rule = [family, "rule", "add", "from", &from, "lookup", "1"];
    process::output(pod.netns.command("ip").args(rule))?;
    wait_until_ready(&node.netns, &[&link])?;
    Ok(link)
}

/// Removes the pod's veth pairs, and with them all routes and neighbour entries over them.
pub(super) fn detach(node: &Node, pod: &PodNet) -> Result<()> {
    let mut batch = Batch::default();
    for link in pod
        .net1
        .iter()
        .map(|(_, link)| link)
        .chain([&pod.host_ifname])
    {
        batch.add(format!("link delete {link}"));
    }
    batch.run(&node.netns)
}

/// The pair of one interface of a pod.
fn ptp(link: &str, interface: &str, ips: &[IpAddr], host: &mut Batch, sandbox: &mut Batch) {
    let table = if interface == "eth0" { "" } else { "table 1" };
    host.add(format!("link set {link} address {HOST_MAC} up"));
    for ip in ips {
        let scope = if ip.is_ipv4() { "scope link" } else { "" };
        host.add(format!("route replace {ip} dev {link} {scope}"));
        sandbox.add(format!("address add {ip} dev {interface} {}", flags(*ip)));
    }
    sandbox.add(format!("link set {interface} up"));
    for gateway in LINK_LOCAL_GATEWAYS {
        sandbox.add(format!(
            "neighbour add {gateway} lladdr {HOST_MAC} dev {interface} nud permanent"
        ));
        sandbox.add(format!(
            "route add default via {gateway} dev {interface} onlink {table}"
        ));
    }
}

fn bridge(pod: &PodNet, node: &Node, learns: bool, host: &mut Batch, sandbox: &mut Batch) {
    let link = &pod.host_ifname;
    let learning = if learns { "on" } else { "off" };
    host.add(format!("link set {link} master {BRIDGE}"));
    // Without hairpin a pod could not reach itself through its own Service.
    host.add(format!(
        "link set {link} type bridge_slave hairpin on learning {learning}"
    ));
    host.add(format!("link set {link} up"));
    for ip in &pod.ips {
        let [(_, v4), (_, v6)] = node.pod_cidrs();
        let length = if ip.is_ipv4() { v4 } else { v6 };
        sandbox.add(format!("address add {ip}/{length} dev eth0 {}", flags(*ip)));
    }
    sandbox.add("link set eth0 up");
    for gateway in node.gateways() {
        sandbox.add(format!("route add default via {gateway} dev eth0 onlink"));
    }
}

/// Sends gratuitous ARP and an unsolicited neighbour advertisement: the kernel does so when a link
/// address is set, even to the same value. Hosts with an old neighbour entry for the address then
/// update it.
fn announce(pod: &PodNet, mac: &str) -> Result<()> {
    Batch::default()
        .add(format!("link set eth0 address {mac}"))
        .run(&pod.netns)
}

//! A node: its namespace, addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use super::ip::Batch;
use super::{Cni, NetNs, Overlay, TopologyOptions, sysctl, topology};

/// The bridge of [`Cni::Bridge`].
pub(super) const BRIDGE: &str = "cni0";
/// The VXLAN device of [`Overlay::Vxlan`].
pub(super) const VXLAN: &str = "flannel.1";

/// A node: its network namespace and addresses. Its uplink is `eth0`.
#[derive(Debug)]
pub struct Node {
    /// `node-a`, `node-b` or `node-c`.
    pub name: String,
    /// The host network namespace.
    pub netns: NetNs,
    /// The node's IPv4 address, 192.168.250.11, .12 or .13.
    pub ipv4: Ipv4Addr,
    /// The node's IPv6 address, `fd00:250::11`, `::12` or `::13`.
    pub ipv6: Ipv6Addr,
    number: u8,
}

impl Node {
    /// A node that is not on the fabric yet; number 1 is `node-a`, 2 `node-b`.
    pub(super) fn new(number: u8, name: &str) -> Result<Self> {
        let netns = NetNs::new(name)?;
        sysctl::write(&netns, &[sysctl::HOST, sysctl::NODE])?;
        let ipv4 = Ipv4Addr::new(192, 168, 250, 10 + number);
        let ipv6 = Ipv6Addr::new(0xfd00, 0x250, 0, 0, 0, 0, 0, 0x10 + u16::from(number));
        Ok(Self {
            name: name.to_owned(),
            netns,
            ipv4,
            ipv6,
            number,
        })
    }

    /// Its address of a family.
    pub fn ip(&self, ipv4: bool) -> IpAddr {
        if ipv4 {
            self.ipv4.into()
        } else {
            self.ipv6.into()
        }
    }

    /// The node's pod CIDRs, IPv4 and IPv6: base and prefix length.
    pub fn pod_cidrs(&self) -> [(IpAddr, u8); 2] {
        let v6 = Ipv6Addr::new(0xfd00, 0x10, 0x244, self.number.into(), 0, 0, 0, 0);
        [([10, 244, self.number, 0].into(), 24), (v6.into(), 64)]
    }

    /// Whether an address lies in the node's pod CIDRs.
    pub fn has_in_pod_cidr(&self, address: IpAddr) -> bool {
        self.pod_cidrs()
            .iter()
            .any(|(base, _)| match (base, address) {
                (IpAddr::V4(base), IpAddr::V4(address)) => {
                    address.octets()[..3] == base.octets()[..3]
                }
                (IpAddr::V6(base), IpAddr::V6(address)) => {
                    address.segments()[..4] == base.segments()[..4]
                }
                _ => false,
            })
    }

    /// The pods' gateways on a bridge: the first host address of each pod CIDR.
    pub(super) fn gateways(&self) -> [IpAddr; 2] {
        [true, false].map(|ipv4| self.pod_ip(ipv4, 1))
    }

    /// The `number`th address of the node's pod CIDR.
    pub fn pod_ip(&self, ipv4: bool, number: u8) -> IpAddr {
        if ipv4 {
            [10, 244, self.number, number].into()
        } else {
            Ipv6Addr::new(
                0xfd00,
                0x10,
                0x244,
                self.number.into(),
                0,
                0,
                0,
                number.into(),
            )
            .into()
        }
    }

    /// Gives the uplink one more address, for which no route of another node changes.
    pub fn add_address(&self, ip: IpAddr) -> Result<()> {
        self.netns
            .ip(&[&format!("address add {} dev eth0 {}", alone(ip), flags(ip))])
    }

    /// Takes it away again.
    pub fn remove_address(&self, ip: IpAddr) -> Result<()> {
        self.netns
            .ip(&[&format!("address delete {} dev eth0", alone(ip))])
    }

    /// Gives the uplink its addresses, and routes to everywhere. The overlay is between node-a and
    /// node-b.
    pub(super) fn configure(&self, peers: &[&Self], options: TopologyOptions) -> Result<()> {
        let mut batch = Batch::default();
        batch.add("link set lo up").add("link set eth0 up");
        batch.add(format!("address add {}/24 dev eth0", self.ipv4));
        batch.add(format!("address add {}/64 dev eth0 nodad", self.ipv6));
        batch.add(format!("route add default via {}", topology::GATEWAY_V4));
        batch.add(format!("route add default via {}", topology::GATEWAY_V6));
        for peer in peers {
            match options.overlay {
                overlay if overlay.is_vxlan() && self.number + peer.number == 3 => {
                    let is_keyed = overlay == Overlay::VxlanKeyed && self.number == 1;
                    self.route_over_vxlan(peer, is_keyed, &mut batch);
                }
                _ => route_over_uplink(peer, &mut batch),
            }
        }
        if options.cni.is_bridge() {
            self.add_bridge(&mut batch);
        }
        if options.overlay == Overlay::VxlanKeyed {
            sysctl::write(&self.netns, &[sysctl::LOOSE])?;
        }
        if options.cni == Cni::BridgeWithoutNetfilter {
            sysctl::write(&self.netns, &[sysctl::WITHOUT_BRIDGE_NETFILTER])?;
        }
        batch.run(&self.netns)
    }

    /// Adds the VXLAN device and the routes over it. It has the first address of the node's pod
    /// CIDR, as with flannel.
    fn route_over_vxlan(&self, peer: &Self, is_keyed: bool, batch: &mut Batch) {
        let local = self.ipv4;
        let remote = peer.ipv4;
        let mac = vtep_mac(self.number);
        let peer_mac = vtep_mac(peer.number);
        let (kind, key) = if is_keyed {
            (
                "external dstport 8472".to_owned(),
                format!("encap ip id 1 dst {remote}"),
            )
        } else {
            (
                format!("id 1 local {local} remote {remote} dstport 8472 dev eth0"),
                String::new(),
            )
        };
        batch.add(format!("link add {VXLAN} address {mac} type vxlan {kind}"));
        batch.add(format!("link set {VXLAN} up"));
        for (own, _) in self.pod_cidrs() {
            batch.add(format!(
                "address add {} dev {VXLAN} {}",
                alone(own),
                flags(own)
            ));
        }
        for (base, length) in peer.pod_cidrs() {
            batch.add(format!(
                "neighbour add {base} lladdr {peer_mac} dev {VXLAN} nud permanent"
            ));
            batch.add(format!(
                "route add {base}/{length} {key} via {base} dev {VXLAN} onlink"
            ));
        }
    }

    /// Adds the bridge, with a fixed MAC address: else it would take that of its lowest port, and
    /// change it with every pod.
    fn add_bridge(&self, batch: &mut Batch) {
        batch.add(format!(
            "link add {BRIDGE} address 0a:58:0a:f4:{:02x}:01 type bridge",
            self.number
        ));
        for (gateway, (_, length)) in self.gateways().into_iter().zip(self.pod_cidrs()) {
            batch.add(format!(
                "address add {gateway}/{length} dev {BRIDGE} {}",
                flags(gateway)
            ));
        }
        batch.add(format!("link set {BRIDGE} up"));
    }
}

fn route_over_uplink(peer: &Node, batch: &mut Batch) {
    for (base, length) in peer.pod_cidrs() {
        batch.add(format!(
            "route add {base}/{length} via {}",
            peer.ip(base.is_ipv4())
        ));
    }
}

/// Words behind a new address. Duplicate address detection would keep it unusable for a second.
pub(super) fn flags(ip: IpAddr) -> &'static str {
    if ip.is_ipv6() { "nodad" } else { "" }
}

/// The range of this address alone.
fn alone(ip: IpAddr) -> String {
    let length = if ip.is_ipv4() { 32 } else { 128 };
    format!("{ip}/{length}")
}

fn vtep_mac(number: u8) -> String {
    format!("0a:58:0a:f4:ff:{number:02x}")
}

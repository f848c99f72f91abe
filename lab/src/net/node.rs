//! A node: its namespace, addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use super::ip::Batch;
use super::{Cni, NetNs, Overlay, TopologyOptions, fabric, sysctl};

/// The bridge of [`Cni::Bridge`].
pub(super) const BRIDGE: &str = "cni0";
/// The VXLAN device of [`Overlay::Vxlan`].
pub(super) const VXLAN: &str = "flannel.1";

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
    number: u8,
}

impl Node {
    /// A node that is not on the fabric yet; number 1 is `node-a`, 2 `node-b`.
    pub(super) fn new(number: u8, name: &str) -> Result<Self> {
        let netns = NetNs::new(name)?;
        sysctl::node(&netns)?;
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
    #[must_use]
    pub fn ip(&self, ipv4: bool) -> IpAddr {
        if ipv4 { self.ipv4.into() } else { self.ipv6.into() }
    }

    /// The node's IPv4 pod CIDR (/24).
    #[must_use]
    pub fn pod_cidr_v4(&self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::new(10, 244, self.number, 0), 24)
    }

    /// The node's IPv6 pod CIDR (/64).
    #[must_use]
    pub fn pod_cidr_v6(&self) -> (Ipv6Addr, u8) {
        (
            Ipv6Addr::new(0xfd00, 0x10, 0x244, u16::from(self.number), 0, 0, 0, 0),
            64,
        )
    }

    /// Whether an address lies in the node's pod CIDRs.
    #[must_use]
    pub fn has_in_pod_cidr(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.octets()[..3] == self.pod_cidr_v4().0.octets()[..3],
            IpAddr::V6(address) => address.segments()[..4] == self.pod_cidr_v6().0.segments()[..4],
        }
    }

    /// Gives the uplink its addresses, and routes to everywhere.
    pub(super) fn configure(&self, peer: &Self, options: TopologyOptions) -> Result<()> {
        let mut batch = Batch::default();
        batch.add("link set lo up").add("link set eth0 up");
        batch.add(format!("address add {}/24 dev eth0", self.ipv4));
        batch.add(format!("address add {}/64 dev eth0 nodad", self.ipv6));
        batch.add(format!("route add default via {}", fabric::GATEWAY_V4));
        batch.add(format!("route add default via {}", fabric::GATEWAY_V6));
        match options.overlay {
            Overlay::None => route_over_uplink(peer, &mut batch),
            Overlay::Vxlan => self.route_over_vxlan(peer, &mut batch),
        }
        if options.cni == Cni::Bridge {
            self.add_bridge(&mut batch);
        }
        batch.run(&self.netns)
    }

    /// Adds the VXLAN device and the routes over it. It has the first address of the node's pod CIDR, as with flannel.
    fn route_over_vxlan(&self, peer: &Self, batch: &mut Batch) {
        let ((v4, v4_length), (v6, v6_length)) = (peer.pod_cidr_v4(), peer.pod_cidr_v6());
        let (local, remote, mac, peer_mac) =
            (self.ipv4, peer.ipv4, vtep_mac(self.number), vtep_mac(peer.number));
        batch.add(format!(
            "link add {VXLAN} address {mac} type vxlan id 1 local {local} remote {remote} dstport 8472 dev eth0"
        ));
        batch.add(format!("link set {VXLAN} up"));
        batch.add(format!("address add {}/32 dev {VXLAN}", self.pod_cidr_v4().0));
        batch.add(format!(
            "address add {}/128 dev {VXLAN} nodad",
            self.pod_cidr_v6().0
        ));
        for gateway in [IpAddr::V4(v4), IpAddr::V6(v6)] {
            batch.add(format!(
                "neighbour add {gateway} lladdr {peer_mac} dev {VXLAN} nud permanent"
            ));
        }
        batch.add(format!("route add {v4}/{v4_length} via {v4} dev {VXLAN} onlink"));
        batch.add(format!("route add {v6}/{v6_length} via {v6} dev {VXLAN} onlink"));
    }

    /// Adds the bridge, with a fixed MAC address: else it would take that of its lowest port, and change it with every pod.
    fn add_bridge(&self, batch: &mut Batch) {
        let (v4, v6) = self.gateways();
        batch.add(format!(
            "link add {BRIDGE} address 0a:58:0a:f4:{:02x}:01 type bridge",
            self.number
        ));
        batch.add(format!("address add {v4}/{} dev {BRIDGE}", self.pod_cidr_v4().1));
        batch.add(format!(
            "address add {v6}/{} dev {BRIDGE} nodad",
            self.pod_cidr_v6().1
        ));
        batch.add(format!("link set {BRIDGE} up"));
    }

    /// The pods' gateways on a bridge: the first host address of each pod CIDR.
    pub(super) fn gateways(&self) -> (Ipv4Addr, Ipv6Addr) {
        let next_v4 = u32::from(self.pod_cidr_v4().0) + 1;
        let next_v6 = u128::from(self.pod_cidr_v6().0) + 1;
        (next_v4.into(), next_v6.into())
    }
}

fn route_over_uplink(peer: &Node, batch: &mut Batch) {
    let ((v4, v4_length), (v6, v6_length)) = (peer.pod_cidr_v4(), peer.pod_cidr_v6());
    batch.add(format!("route add {v4}/{v4_length} via {}", peer.ipv4));
    batch.add(format!("route add {v6}/{v6_length} via {}", peer.ipv6));
}

fn vtep_mac(number: u8) -> String {
    format!("0a:58:0a:f4:ff:{number:02x}")
}

//! The network that the nodes and the external host are on: a bridge in a namespace of its own.

use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use super::ip::{Batch, wait_until_ready};
use super::{NetNs, sysctl};

/// The external host, every node's default gateway. It forwards nothing.
pub(super) const GATEWAY_V4: &str = "192.168.250.1";
/// Its IPv6 address.
pub(super) const GATEWAY_V6: &str = "fd00:250::1";

/// Makes a namespace with a bridge, and gives each host an `eth0` that is plugged into it. Its ports have the hosts' names.
pub(super) fn connect(hosts: &[(&str, &NetNs)]) -> Result<NetNs> {
    let fabric = NetNs::new("fabric")?;
    sysctl::host(&fabric)?;
    let mut batch = Batch::default();
    batch.add("link add fabric type bridge mcast_snooping 0").add("link set fabric up");
    for (port, host) in hosts {
        batch.add(format!("link add {port} type veth peer name eth0 netns {}", host.name()));
        batch.add(format!("link set {port} master fabric up"));
    }
    batch.run(&fabric)?;
    Ok(fabric)
}

/// Waits until the ports forward; the hosts' ends must be up.
pub(super) fn wait(fabric: &NetNs, hosts: &[(&str, &NetNs)]) -> Result<()> {
    for (_, host) in hosts {
        wait_until_ready(host, &["eth0"])?;
    }
    wait_until_ready(fabric, &hosts.iter().map(|(port, _)| *port).collect::<Vec<_>>())
}

/// Gives the external host its addresses. It sends packets to unknown destinations, such as a load-balancer IP, to `node-a`.
pub(super) fn configure_external(external: &NetNs, node_v4: Ipv4Addr, node_v6: Ipv6Addr) -> Result<()> {
    let mut batch = Batch::default();
    batch.add("link set lo up").add("link set eth0 up");
    batch.add(format!("address add {GATEWAY_V4}/24 dev eth0"));
    batch.add(format!("address add {GATEWAY_V6}/64 dev eth0 nodad"));
    batch.add(format!("route add default via {node_v4}"));
    batch.add(format!("route add default via {node_v6}"));
    batch.run(external)
}

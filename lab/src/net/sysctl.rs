//! Kernel settings of the network namespaces of nodes and pod sandboxes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::NetNs;

/// Keys and values.
pub(super) type Settings = &'static [(&'static str, &'static str)];

/// Duplicate address detection is off: it keeps a new IPv6 address unusable for a second. ICMP
/// errors are never rate-limited, so that each refused client receives one. No host takes ICMP
/// redirects: the external one would go round the node that it sends through.
pub(super) const HOST: Settings = &[
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv6/icmp/ratelimit", "0"),
];

/// Forwarding as the kubelet needs it, with strict reverse path filtering, and nftables for bridged
/// packets.
pub(super) const NODE: Settings = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "1"),
    ("ipv4/conf/default/rp_filter", "1"),
    ("bridge/bridge-nf-call-iptables", "1"),
    ("bridge/bridge-nf-call-ip6tables", "1"),
];

/// Loose reverse path filtering: packets of a node may come by the tunnel, and go back by the
/// uplink.
pub(super) const LOOSE: Settings = &[("ipv4/conf/all/rp_filter", "2")];

/// As where the module `br_netfilter` is not loaded.
pub(super) const WITHOUT_BRIDGE_NETFILTER: Settings = &[
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
];

/// A pod announces its addresses when its link's address is set, which updates stale neighbour
/// entries.
pub(super) const POD: Settings = &[
    ("ipv4/conf/default/arp_notify", "1"),
    ("ipv6/conf/default/ndisc_notify", "1"),
];

/// Writes settings into a namespace.
pub(super) fn write(netns: &NetNs, settings: &[Settings]) -> Result<()> {
    netns.run(|| {
        for (key, value) in settings.iter().copied().flatten() {
            let file = Path::new("/proc/sys/net").join(key);
            fs::write(&file, value)
                .with_context(|| format!("cannot write {value} to {}", file.display()))?;
        }
        Ok(())
    })?
}

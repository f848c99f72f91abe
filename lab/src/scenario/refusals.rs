//! Denied calls at a load balancer at sockets: which of them are refused, and that a refused one sends no packet.

use anyhow::{Result, ensure};

use super::cluster::Cluster;
use super::format::{Action, Call, Wire};
use crate::traffic::Sniffer;

/// The expected action for a call that is denied `by` something. UDP is refused where it should be redirected, or wait: its first
/// datagrams may be those of an earlier call. So is TCP where the kernel does not judge packets by their sockets.
pub(super) fn action(call: &Call, by: Action, kernel_judges_by_socket: bool) -> Action {
    let is_refused = match by {
        // A kept flow has made its call.
        _ if call.on.is_some() => false,
        Action::Drop | Action::Capture => !kernel_judges_by_socket || call.protocol == Wire::Udp,
        Action::Redirect => call.protocol == Wire::Udp,
        Action::Reject => false,
    };
    if is_refused { Action::Reject } else { by }
}

/// Counts from now on the packets of a call that must be refused; `host` makes the call.
pub(super) fn sniffer(call: &Call, host: &str, cluster: &Cluster) -> Result<Sniffer> {
    let service = call.call.as_deref().unwrap_or_default();
    let backends = cluster.backends(service).unwrap_or_default();
    Sniffer::new(cluster.topology.netns(host)?, backends)
}

/// An error if there was a packet.
pub(super) fn check(mut sniffer: Sniffer) -> Result<()> {
    let packets = sniffer.packets()?;
    ensure!(packets == 0, "expected that the refused call sends no packet, seen: {packets} to its backend");
    Ok(())
}

//! Denied calls at a load balancer at sockets: which of them are refused, and that a refused one sends no packet.

use anyhow::{Result, ensure};

use super::cluster::Cluster;
use super::format::{Action, Call, Wire};
use crate::traffic::Sniffer;

/// The expected action for a call that is denied `by` something. UDP is refused where it should be redirected, or wait: its first
/// datagrams may be those of an earlier call. So is TCP where the kernel does not judge packets by their sockets.
pub(super) fn action(call: &Call, by: Action, is_of_pod: bool, kernel_judges_by_socket: bool) -> Action {
    let is_refused = match by {
        // A kept flow has made its call.
        _ if call.on.is_some() => false,
        Action::Drop | Action::Capture => !kernel_judges_by_socket || call.protocol == Wire::Udp,
        Action::Redirect => call.protocol == Wire::Udp,
        Action::Reject => false,
    };
    match by {
        _ if is_refused => Action::Reject,
        // The interface is hooked, and would see the packet with its socket again.
        Action::Capture if is_of_pod => Action::Drop,
        by => by,
    }
}

/// Watches for packets of a call that must be refused.
#[derive(Debug)]
pub(super) struct Unsent(Sniffer);

impl Unsent {
    /// From now on; `host` makes the call.
    pub(super) fn new(call: &Call, host: &str, cluster: &Cluster) -> Result<Self> {
        let service = call.call.as_deref().unwrap_or_default();
        let backends = cluster.backends(service).unwrap_or_default();
        let netns = cluster.topology.netns(host)?;
        Sniffer::new(netns, backends).map(Self)
    }

    /// An error if there was a packet.
    pub(super) fn check(mut self) -> Result<()> {
        let packets = self.0.packets()?;
        ensure!(
            packets == 0,
            "expected that the refused call sends no packet, seen: {packets} to its backend"
        );
        Ok(())
    }
}

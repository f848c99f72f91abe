//! Possible holders: pods that may hold an IP that they do not show.

use super::record::Record;
use crate::facts::{Pod, Sandbox};

impl Record {
    /// True for a possible holder: bound and live, but it may hold another IP than it shows, or shows none.
    pub(crate) fn is_possible_holder(&self) -> bool {
        let unpublished = self.pod.ips.is_empty() || self.pod.partial || !self.settled;
        self.is_live() && !self.pod.host_network && self.pod.node.is_some() && unpublished
    }
}

/// True if the IPs that the pod shows belong to its sandbox.
///
/// A kubelet reports a new sandbox (`kubelet.go:OnPodSandboxReady`, 1.36) with the IPs, the containers and the condition `Ready` of the
/// status before. Once it shows other containers, it shows the sandbox's own IPs, too. What the watch has shown in this order counts
/// before the kubelet's times, for its clock may have been set. A pod that showed this sandbox without any IP, and never another IP,
/// had none before: what it shows next is this sandbox's, though no container has started in it.
pub fn is_settled(before: Option<&Record>, pod: &Pod, from_list: bool) -> bool {
    let by_its_clock = pod.sandbox == Sandbox::Published;
    let Some(before) = before.filter(|before| before.present) else {
        return by_its_clock;
    };
    let is_up = pod.sandbox_since.is_some();
    let has_same_sandbox = before.pod.sandbox_since == pod.sandbox_since;
    let has_same_containers = before.pod.starts == pod.starts;
    match (has_same_sandbox, has_same_containers) {
        (false, true) => false,
        (true, false) if is_up => true,
        (true, true) if is_up => {
            let has_same_ips = before.pod.ips == pod.ips || pod.starts != 0;
            let is_first = !from_list && before.claims.is_empty() && !pod.ips.is_empty();
            before.settled && has_same_ips || is_first
        }
        (false, false) if pod.sandbox == Sandbox::FirstStarts => !from_list,
        _ => by_its_clock,
    }
}

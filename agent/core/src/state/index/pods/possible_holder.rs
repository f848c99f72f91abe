//! Possible holders: pods that may hold an IP that they do not show.

use super::record::Record;
use crate::facts::{Pod, Sandbox};
use crate::state::index::Moment;
use crate::state::not_proven::HolderShows;
use epguard_common::Addr;

impl Record {
    /// True for a possible holder: bound and live, but it may hold another IP than it shows, or
    /// shows none.
    pub(crate) fn is_possible_holder(&self) -> bool {
        let unpublished = self.pod.ips.is_empty() || self.pod.partial || !self.settled;
        self.can_hold() && unpublished
    }

    /// True if it may hold this IP without showing it: as a possible holder, or because it shows
    /// IPs of the other family only. A pod has at most one pod IP of each family (core/v1
    /// `podIPs`).
    pub(crate) fn may_hold_unshown(&self, ip: Addr) -> bool {
        self.is_possible_holder() || self.only_family().is_some_and(|is_v4| is_v4 != ip.is_v4())
    }

    /// What a pod shows that may hold an IP without showing it.
    pub(crate) fn shown_instead(&self) -> HolderShows {
        if self.pod.partial {
            HolderShows::Unreadable
        } else if self.pod.ips.is_empty() {
            HolderShows::Nothing
        } else if self.settled {
            HolderShows::OtherFamily
        } else {
            HolderShows::MaybeOfOldSandbox
        }
    }

    /// Whether IPv4 is the only family of which it shows IPs; none if it shows both, or none, or
    /// can hold no IP of its own.
    pub(crate) fn only_family(&self) -> Option<bool> {
        let (first, rest) = self.pod.ips.split_first()?;
        let is_only_one = rest.iter().all(|ip| ip.is_v4() == first.is_v4());
        (is_only_one && self.can_hold()).then_some(first.is_v4())
    }

    /// Since when it may hold an IP that it does not show, as far as that is known.
    pub(crate) fn unshown_since(&self) -> Moment {
        let first_claim = || self.claims.iter().map(|(_, claim)| claim.since).min();
        self.possible_holder_since
            .or_else(first_claim)
            .unwrap_or_default()
    }

    fn can_hold(&self) -> bool {
        self.is_live() && !self.pod.host_network && self.pod.node.is_some()
    }
}

/// True if the IPs that the pod shows belong to its sandbox.
///
/// A kubelet reports a new sandbox (`kubelet.go:OnPodSandboxReady`, 1.36) with the IPs, the
/// containers and the condition `Ready` of the status before. Once it shows other containers, or
/// containers that wait for another reason, it shows the sandbox's own IPs, too. What the watch has
/// shown in this order counts before the kubelet's times, for its clock may have been set. A pod
/// that showed this sandbox without any IP, and never another IP, had none before: what it shows
/// next is this sandbox's, though no container has started in it.
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
            let has_same_ips = before.pod.ips == pod.ips;
            let is_reported_anew = !from_list && has_same_ips && before.pod.waits != pod.waits;
            let is_first = !from_list && before.claims.is_empty() && !pod.ips.is_empty();
            before.settled && (has_same_ips || pod.starts != 0) || is_reported_anew || is_first
        }
        (false, false) if pod.sandbox == Sandbox::FirstStarts => !from_list,
        _ => by_its_clock,
    }
}

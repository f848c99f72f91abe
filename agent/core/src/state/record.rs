//! A pod that the API shows or has shown, and what is proven of it.

use crate::facts::{Pod, Sandbox};
use epguard_common::{Addr, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

/// A pod that the API shows or has shown.
#[derive(Debug, Clone)]
pub struct Record {
    /// The last object seen.
    pub pod: Pod,
    /// What is proven of it.
    pub uid_state: UidState,
    /// Whether the API shows the object now.
    pub present: bool,
    /// Every IP it showed, with the order in which claims were first seen. Claims of one list share a number, since a
    /// list does not show which was first.
    pub claims: BTreeMap<Addr, Claim>,
    /// True if one list and nothing else showed its end: the pod's next object may take that back, even a death.
    pub unconfirmed: bool,
    /// When a watch showed its death; 0 if a list did, or an earlier process: it may have died any time before.
    pub died: Duration,
    /// The sandbox whose IPs it shows though no container was started in it.
    pub settled_in: Option<i64>,
    /// Since when it may hold an IP that it doesn't show.
    pub possible_holder_since: Option<Duration>,
}

/// When a pod was first seen to have an IP.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// In its podIPs, since then; not just in an annotation.
    pub published: bool,
    /// Orders claims within one continuous watch.
    pub order: u64,
    /// Receipt time.
    pub since: Duration,
}

impl Record {
    /// True if it holds the IP according to the API.
    #[must_use]
    pub fn claims_now(&self, ip: Addr) -> bool {
        self.present && !self.pod.host_network && self.pod.addresses().any(|own| own == ip)
    }

    /// A live pod that the API shows.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.present && self.uid_state == UidState::Live
    }

    /// True for a possible holder: bound and live, but it may hold another IP than it shows, or shows none.
    #[must_use]
    pub fn is_possible_holder(&self) -> bool {
        let settled = self.pod.sandbox == Sandbox::Published || self.settled_in.is_some();
        let unpublished = self.pod.ips.is_empty() || !settled;
        self.is_live() && !self.pod.host_network && self.pod.node.is_some() && unpublished
    }
}

/// The sandbox, by the moment it came up, that the shown IPs belong to, of a pod in which no container has started yet
/// (its image is being pulled, or cannot be).
///
/// A kubelet reports a new sandbox with the IPs of the one before (`kubelet.go:OnPodSandboxReady`, 1.36). A pod that showed
/// this sandbox without any IP, and never another IP, had none before: what it shows next is this sandbox's.
pub(super) fn settled_in(before: Option<&Record>, pod: &Pod, from_list: bool) -> Option<i64> {
    let (before, since) = (before?, pod.sandbox_since?);
    let same = before.settled_in == Some(since) && before.pod.ips == pod.ips;
    let first = !from_list
        && before.present
        && before.claims.is_empty()
        && before.pod.sandbox_since == Some(since)
        && !pod.ips.is_empty();
    (same || first).then_some(since)
}

//! A pod, present in the API or remembered, and what is proven of it.

use crate::facts::{Pod, Sandbox};
use epguard_common::Addr;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of a UID. Only `Retired` and `Dead` prove anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Anything but a proof: running, or vanished in a gap.
    Live,
    /// Kubernetes intends no new flow for it, but it may still run.
    Retired,
    /// It will never send or receive again. Irrevocable.
    Dead,
}

/// A pod, present in the API or remembered.
#[derive(Debug, Clone)]
pub struct Record {
    /// The last object seen.
    pub pod: Pod,
    /// What it proves.
    pub life: Life,
    /// Whether the API shows the object now.
    pub present: bool,
    /// Every IP it showed, with the order in which claims were first seen. Claims of one list share a number,
    /// since a list doesn't say which was first.
    pub claims: BTreeMap<Addr, Claim>,
    /// Whether its end was shown by one list and by nothing else: the next word on it may take that back, even a death.
    pub unconfirmed: bool,
    /// When a watch showed its death; 0 if a list did, or an earlier process: it may have died any time before.
    pub died: Duration,
    /// The sandbox whose IPs it shows though no container was started in it.
    pub settled_in: Option<i64>,
    /// Since when it may hold an IP that it doesn't show.
    pub candidate_since: Option<Duration>,
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
    /// Whether it holds the IP as far as the API says.
    #[must_use]
    pub fn claims_now(&self, ip: Addr) -> bool {
        self.present && !self.pod.host_network && self.pod.addresses().any(|own| own == ip)
    }

    /// A live pod that the API shows.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.present && self.life == Life::Live
    }

    /// Bound and live, but the IP that it holds may not be the one that it shows, if it shows one.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        let settled = self.pod.sandbox == Sandbox::Published || self.settled_in.is_some();
        let unpublished = self.pod.ips.is_empty() || !settled;
        self.is_live() && !self.pod.host_network && self.pod.node.is_some() && unpublished
    }
}

/// The sandbox, by the moment it came up, that the shown IPs belong to, of a pod in which no container was started yet (it
/// pulls an image, or cannot).
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

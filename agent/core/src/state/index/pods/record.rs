//! A pod that the API shows or has shown, and what is proven of it.

use crate::facts::Pod;
use crate::state::index::Moment;
use crate::state::index::incarnation::Incarnation;
use epguard_common::{Addr, UidState};
use smallvec::SmallVec;

/// A pod that the API shows or has shown.
#[derive(Debug, Clone, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, and there is one record for each pod of the cluster"
)]
pub struct Record {
    /// The last object seen.
    pub pod: Pod,
    /// What is proven of it.
    pub uid_state: UidState,
    /// Whether the API shows the object now.
    pub present: bool,
    /// Every IP that it showed in its podIPs, or shows in an annotation, with the order in which
    /// claims were first seen. Claims of one list share a number, since a list does not show which
    /// was first.
    pub claims: IpClaims,
    /// True if one list and nothing else showed its end: the pod's next object may take that back,
    /// even a death.
    pub is_by_one_list: bool,
    /// True if only narrow lists have confirmed its end since: what else the one list of everything
    /// lacked is unknown.
    pub is_by_narrow_lists: bool,
    /// When a watch showed its death; 0 if a list did, or an earlier process: it may have died any
    /// time before.
    pub died: Moment,
    /// True if the IPs that it shows are those of its sandbox.
    pub settled: bool,
    /// Since when it may hold an IP that it doesn't show.
    pub possible_holder_since: Option<Moment>,
    /// What reports its status.
    pub kubelet: Kubelet,
    /// The Node object that it was first seen alive on.
    pub ran_on: Option<Incarnation>,
    /// True if only an earlier process saw it: its labels are not known.
    pub restored: bool,
}

/// What reports the status of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kubelet {
    /// The pod's Node was never seen.
    #[default]
    Unknown,
    /// A kubelet.
    Real,
    /// A virtual kubelet, whose statuses prove nothing.
    Virtual,
}

impl Record {
    /// True if it holds the IP according to the API.
    pub(crate) fn claims_now(&self, ip: Addr) -> bool {
        self.present && !self.pod.host_network && self.pod.addresses().any(|own| own == ip)
    }

    /// A live pod that the API shows.
    pub fn is_live(&self) -> bool {
        self.present && self.uid_state == UidState::Live
    }
}

/// When a pod was first seen to have an IP.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// In its podIPs, since then; not just in an annotation.
    pub published: bool,
    /// Orders claims within one continuous watch.
    pub order: u64,
    /// Receipt time.
    pub since: Moment,
}

/// More IPs than a pod has had. One that has shown more keeps claims only to those that it shows:
/// without a claim less is proven.
const MOST: usize = 64;

/// Claims by IP, in one sorted array: nearly all pods have one.
#[derive(Debug, Clone, Default)]
pub struct IpClaims(SmallVec<[(Addr, Claim); 1]>);

impl IpClaims {
    /// True if the pod never showed an IP.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The claim to an IP.
    pub fn get(&self, ip: &Addr) -> Option<&Claim> {
        let at = self.0.binary_search_by_key(ip, |(ip, _)| *ip).ok()?;
        Some(&self.0[at].1)
    }

    /// All claims.
    pub fn iter(&self) -> impl Iterator<Item = (&Addr, &Claim)> {
        self.0.iter().map(|(ip, claim)| (ip, claim))
    }

    /// Drops the claims that count no more once the pod is shown so.
    pub(crate) fn drop_old(&mut self, pod: &Pod) {
        let has_many = self.0.len() > MOST;
        self.0.retain(|(ip, claim)| {
            pod.ips.contains(ip) || pod.network_ips.contains(ip) || claim.published && !has_many
        });
    }

    /// Adds a claim. A known one to the IP stays, unless this one replaces it.
    pub(crate) fn add(&mut self, ip: Addr, claim: Claim, replaces: impl Fn(&Claim) -> bool) {
        match self.0.binary_search_by_key(&ip, |(ip, _)| *ip) {
            Ok(at) if replaces(&self.0[at].1) => self.0[at].1 = claim,
            Ok(_) => {}
            Err(at) => self.0.insert(at, (ip, claim)),
        }
    }
}

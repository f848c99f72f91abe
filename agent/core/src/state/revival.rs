//! A dead pod that the API shows alive.
//!
//! A death is permanent, so the API server went back in time: etcd was restored from a backup. Its
//! resourceVersion need not show that, because restore tools raise it
//! (`etcdutl snapshot restore --bump-revision --mark-compacted`).
//!
//! A client that may write `pods/status` can forge the same. One namespace makes the agent list
//! everything anew at most once in [`PAUSE`]; until then its revived pods count as opted out.
//! Deaths of other pods hold, once the new lists leave these pods out. This does not cover a pod
//! that the restored API server showed and that was force-deleted before the agent listed: it may
//! run on unseen.

use super::index::ClusterIndex;
use super::index::restore::Death;
use crate::facts::{ObjectName, Pod, Text};
use epguard_common::{Mode, Uid, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a namespace cannot make the agent start over again.
pub const PAUSE: Duration = Duration::from_mins(10);

/// The pod that made the agent start over, and when each namespace did so last.
#[derive(Debug, Clone, Default)]
pub struct Revivals {
    untaken: Option<ObjectName>,
    last: BTreeMap<Text, Duration>,
    /// Deaths that were proven before and wait for the new lists.
    deaths: BTreeMap<Uid, Death>,
}

/// What the pods that the API shows now revive.
#[derive(Debug, Default)]
pub struct Revived {
    /// True if everything has to be listed anew.
    pub starts_over: bool,
    /// Pods whose death is taken back instead.
    pub taken_back: Vec<Uid>,
}

impl Revivals {
    /// Finds dead pods among those that the API shows now: everything has to be listed anew. Keeps
    /// the deaths with which these lists can agree. If the pod's namespace caused that within
    /// [`PAUSE`], bounds the pod to `off` instead: packets that are meant for it pass.
    pub fn find(&mut self, cluster: &ClusterIndex, now: Duration, shown: &mut [Pod]) -> Revived {
        self.last
            .retain(|_, caused| now.saturating_sub(*caused) < PAUSE);
        let mut revived = Revived::default();
        let mut cause = None;
        for pod in &mut *shown {
            if pod.uid_state != UidState::Live || !cluster.pods.is_dead(pod.uid) {
                continue;
            }
            if self.last.contains_key(&pod.name.namespace) {
                revived.taken_back.push(pod.uid);
                pod.bound = Mode::Off;
            } else {
                cause = Some(pod.name.clone());
            }
        }
        if let Some(name) = cause {
            revived.starts_over = true;
            self.last.insert(name.namespace.clone(), now);
            self.untaken = Some(name);
            self.deaths.extend(cluster.deaths());
        }
        for pod in shown {
            self.deaths.remove(&pod.uid);
        }
        revived
    }

    /// The dead pod that the API has shown alive since the last call, if any.
    pub fn take_revived(&mut self) -> Option<ObjectName> {
        self.untaken.take()
    }

    /// The deaths of pods that were not shown again, once everything has been listed anew.
    pub fn take_deaths(&mut self) -> BTreeMap<Uid, Death> {
        std::mem::take(&mut self.deaths)
    }

    /// Forgets the deaths: none holds.
    pub fn forget_deaths(&mut self) {
        self.deaths.clear();
    }
}

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

use crate::facts::{ObjectName, Pod, Text};
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::Record;
use epguard_common::{Mode, Uid, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a namespace cannot make the agent start over again.
pub const PAUSE: Duration = Duration::from_mins(10);

/// The pod that made the agent start over, and when each namespace did so last.
#[derive(Debug, Clone, Default)]
pub struct Revivals {
    pub untaken: Option<ObjectName>,
    last: BTreeMap<Text, Duration>,
    /// Deaths that were proven before and wait for the new lists.
    pub deaths: BTreeMap<Uid, Death>,
}

/// A dead pod, and where Services list it or did recently, each with whether a slice of another
/// writer does.
#[derive(Debug, Clone)]
pub struct Death {
    record: Record,
    listed: Vec<(ObjectName, Endpoint, bool)>,
}

impl Revivals {
    /// True if one of the pods that the API shows now is dead: everything has to be listed anew.
    /// Keeps the deaths that these lists can confirm. If the pod's namespace caused that within
    /// [`PAUSE`], bounds the pod to `off` instead: packets that are meant for it pass.
    pub fn notice(&mut self, cluster: &mut ClusterIndex, now: Duration, shown: &mut [Pod]) -> bool {
        self.last.retain(|_, at| now.saturating_sub(*at) < PAUSE);
        let mut cause = None;
        for pod in &mut *shown {
            if pod.uid_state != UidState::Live || !cluster.pods.is_dead(pod.uid) {
                continue;
            }
            if self.last.contains_key(&pod.name.namespace) {
                cluster.pods.take_back(pod.uid);
                cluster.index_stale(pod.uid);
                pod.bound = Mode::Off;
            } else {
                cause = Some(pod.name.clone());
            }
        }
        let is_revived = cause.is_some();
        if let Some(name) = cause {
            self.last.insert(name.namespace.clone(), now);
            self.untaken = Some(name);
            self.keep_deaths(cluster);
        }
        for pod in shown {
            self.deaths.remove(&pod.uid);
        }
        is_revived
    }

    /// Restores the deaths of pods that were not shown again, once everything has been listed anew.
    /// Returns these pods.
    pub fn restore_deaths(&mut self, cluster: &mut ClusterIndex, now: Duration) -> Vec<Uid> {
        let deaths = std::mem::take(&mut self.deaths);
        let restored = deaths.into_iter().map(|(uid, Death { record, listed })| {
            let namespace = record.pod.name.namespace.clone();
            cluster.pods.keep_dead(record);
            for (service, endpoint, foreign) in listed {
                cluster
                    .endpoint_index
                    .record(now, &service, endpoint, uid, foreign);
                cluster.endpoint_index.name_namespace(&service, &namespace);
            }
            uid
        });
        restored.collect()
    }

    fn keep_deaths(&mut self, cluster: &ClusterIndex) {
        let endpoint_index = &cluster.endpoint_index;
        for record in cluster
            .pods
            .iter()
            .filter(|record| cluster.pods.is_dead(record.pod.uid))
        {
            let uid = record.pod.uid;
            let listed = endpoint_index.of_pod(uid).flat_map(|(service, ip)| {
                let endpoints = endpoint_index.at(service, ip);
                let named = endpoints
                    .filter_map(move |(endpoint, targets)| Some((endpoint, targets.get(uid)?)));
                named.map(|(endpoint, listing)| (service.clone(), *endpoint, listing.foreign))
            });
            let death = Death {
                listed: listed.collect(),
                record: record.clone(),
            };
            self.deaths.insert(uid, death);
        }
    }
}

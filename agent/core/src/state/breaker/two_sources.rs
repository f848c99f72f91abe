//! Whether two components agree that a pod is gone: the kubelet, and the writer of the slices.

use crate::facts::ObjectName;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Target;
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeSet;

/// What slices of a Service list now, at one IP after the other: many endpoints may be at one.
pub struct TwoSources<'a> {
    cluster: &'a ClusterIndex,
    service: &'a ObjectName,
    /// The IP that was looked up last.
    ip: Option<Addr>,
    /// What slices list there.
    targets: BTreeSet<Target>,
}

impl<'a> TwoSources<'a> {
    /// Looks nothing up yet.
    pub const fn new(cluster: &'a ClusterIndex, service: &'a ObjectName) -> Self {
        Self {
            cluster,
            service,
            ip: None,
            targets: BTreeSet::new(),
        }
    }

    /// True if slices list the IP.
    pub fn lists(&mut self, ip: Addr) -> bool {
        !self.targets_at(ip).is_empty()
    }

    /// True if the kubelet proves the death, and no slice lists the pod at the IP any more.
    pub fn agree(&mut self, ip: Addr, meant: Uid) -> bool {
        let record = self.cluster.pods.get(meant);
        let is_dead = record.is_some_and(|record| record.uid_state == UidState::Dead);
        is_dead && !self.targets_at(ip).contains(&Some(meant))
    }

    fn targets_at(&mut self, ip: Addr) -> &BTreeSet<Target> {
        if self.ip != Some(ip) {
            self.ip = Some(ip);
            self.targets.clear();
            let targets = self.cluster.endpoint_index.targets_at(self.service, ip);
            for (target, listing) in targets {
                if listing.is_current() {
                    self.targets.insert(target);
                }
            }
        }
        &self.targets
    }
}

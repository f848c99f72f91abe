//! What OWNERS should hold: the pod that each IP belongs to according to the API.

use super::Generations;
use crate::sorted_map::SortedMap;
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use epguard_common::{Addr, Owner, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

/// Pods that show one IP, of which one is its owner; those that show it in an annotation come last.
const CLAIMANTS: usize = 64;

/// The owners of all IPs.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// What OWNERS should hold.
    pub entries: SortedMap<Addr, Owner>,
    /// IPs whose entry in OWNERS is wrong, and after them those that have none yet.
    changed: SortedMap<(bool, Addr), ()>,
    generations: Generations,
}

impl Owners {
    /// Updates the owners of IPs.
    pub fn update(&mut self, cluster: &ClusterIndex, now: Duration, ips: &BTreeSet<Addr>) {
        for ip in ips {
            self.update_ip(cluster, now, *ip);
        }
    }

    fn update_ip(&mut self, cluster: &ClusterIndex, now: Duration, ip: Addr) {
        let before = self.entries.get(&ip).copied();
        let mut after = owner_of(cluster, ip);
        if let Some(owner) = &mut after {
            owner.generation = self.generations.owned(now, ip, before.as_ref(), owner.uid);
        } else if let Some(before) = &before {
            self.generations.idle(ip, before, now);
        }
        if after == before {
            return;
        }
        let is_unwritten = self.changed.contains_key(&(true, ip));
        let is_wrong = self.changed.contains_key(&(false, ip));
        let is_new = is_unwritten || before.is_none() && !is_wrong;
        self.changed.insert((is_new, ip), ());
        if let Some(owner) = after {
            self.entries.insert(ip, owner);
        } else {
            self.entries.remove(&ip);
        }
    }

    /// The pod that owns an IP, or did last.
    pub fn last_owner(&self, ip: Addr) -> Option<Uid> {
        match self.entries.get(&ip) {
            Some(owner) => Some(owner.uid),
            None => self.generations.last_owner(ip),
        }
    }

    /// True if OWNERS lacks a change.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The keys that changed since the last call. Owners that went or were replaced are all among
    /// them; new ones as far as there is room for `most` keys.
    pub fn take_changed(&mut self, most: usize) -> BTreeSet<Addr> {
        let is_wrong = |key: &&(bool, Addr)| !key.0;
        let wrong = self.changed.keys().take_while(is_wrong).count();
        let keys = self.changed.take_first(most.max(wrong));
        keys.into_iter().map(|(_, ip)| ip).collect()
    }

    /// How long IPs had no owner, for those that got another one since the last call.
    pub fn take_reuse_gaps(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.generations.gaps)
    }

    /// Forgets last owners of IPs that have had none for a while, except those of IPs `in_use`.
    pub fn expire(&mut self, now: Duration, in_use: impl Fn(Addr) -> bool) {
        self.generations.expire(now, in_use);
    }

    /// Drops all entries, as if no pod owned an IP any more.
    pub fn clear(&mut self, now: Duration) {
        for (ip, owner) in std::mem::take(&mut self.entries).iter() {
            self.generations.idle(*ip, owner, now);
        }
    }
}

/// The pod that an IP belongs to according to the API, for OWNERS. With several live claimants the
/// last one, flagged, unless all others are terminating or show it on another network, which may
/// overlap. The caller counts the generation.
fn owner_of(cluster: &ClusterIndex, ip: Addr) -> Option<Owner> {
    if cluster.is_infrastructure(ip) {
        return None;
    }
    // An address of a Service that a pod shows in an annotation alone is the Service's.
    let is_no_pods = cluster.is_no_pods(ip);
    let published = |record: &Record| record.pod.ips.contains(&ip);
    let may_hold =
        |record: &&Record| published(record) || !is_no_pods && cluster.may_hold(record, ip);
    let live = || {
        cluster
            .pods
            .live_claimants(ip)
            .take(CLAIMANTS)
            .filter(may_hold)
    };
    let last = live().max_by_key(|record| {
        (
            published(record),
            !record.pod.deleting,
            record
                .claims
                .get(&ip)
                .map(|claim| cluster.pods.order_of(claim)),
        )
    })?;
    let staying = live()
        .filter(|record| !record.pod.deleting && published(record))
        .count();
    let mut flags = 0;
    if last.pod.deleting {
        flags |= Owner::DRAINING;
    }
    if staying > 1 {
        flags |= Owner::CONFLICT;
    }
    let since = last
        .claims
        .get(&ip)
        .map(|claim| claim.since)
        .unwrap_or_default()
        .into();
    Some(Owner {
        uid: last.pod.uid,
        generation: 0,
        since_ns: nanoseconds(since),
        flags,
        reserved: 0,
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! The desired contents of the maps.

mod alternatives;
mod generations;
mod inherited;
pub mod layout;
mod numbers;
mod restore;

pub use generations::Generations;
pub use inherited::Inherited;
pub use numbers::Numbers;

use crate::counts::Counts;
use crate::sorted_map::SortedMap;
use crate::state::index::ClusterIndex;
use crate::state::index::pods::Record;
use crate::state::orphan_ip::OrphanIp;
use epguard_common::{Addr, Backends, Denial, DenialKey, Owner, ServiceNumber, Suspect, Vip};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Contents of the datapath's maps. They grow with staleness, never with the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// SUSPECTS.
    pub suspects: SortedMap<Addr, Suspect>,
    /// SERVICES.
    pub services: SortedMap<Vip, ServiceNumber>,
    /// DENIED.
    pub denied: SortedMap<DenialKey, Denial>,
    /// BACKENDS.
    pub backends: SortedMap<DenialKey, Backends>,
    /// TERMINATED.
    pub terminated: BTreeMap<Addr, OrphanIp>,
    /// Denials that found no room in a table, by the Service's namespace; those packets pass.
    pub refused: Counts<String>,
}

/// Keys whose entries may differ between two tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Of SUSPECTS.
    pub suspects: BTreeSet<Addr>,
    /// Of SERVICES.
    pub services: BTreeSet<Vip>,
    /// Of DENIED and BACKENDS.
    pub denied: BTreeSet<DenialKey>,
}

impl Changes {
    /// The keys whose entries differ.
    pub fn between(one: &Tables, other: &Tables) -> Self {
        let mut denied = differing(&one.denied, &other.denied);
        denied.append(&mut differing(&one.backends, &other.backends));
        let suspects = differing(&one.suspects, &other.suspects);
        Self {
            suspects,
            services: differing(&one.services, &other.services),
            denied,
        }
    }

    /// Adds other keys.
    pub fn extend(&mut self, mut other: Self) {
        self.suspects.append(&mut other.suspects);
        self.services.append(&mut other.services);
        self.denied.append(&mut other.denied);
    }
}

fn differing<K: Ord + Copy, V: PartialEq>(
    one: &SortedMap<K, V>,
    other: &SortedMap<K, V>,
) -> BTreeSet<K> {
    let lost = one
        .iter()
        .filter(|(key, value)| other.get(key) != Some(value));
    let new = other.keys().filter(|key| !one.contains_key(key));
    lost.map(|(key, _)| *key).chain(new.copied()).collect()
}

/// Pods that show one IP, of which one is its owner; those that show it in an annotation come last.
const CLAIMANTS: usize = 64;

/// The pod that an IP belongs to according to the API, for OWNERS. With several live claimants the
/// last one, flagged, unless all others are terminating or show it on another network, which may
/// overlap. The caller counts the generation.
pub fn owner(cluster: &ClusterIndex, ip: Addr) -> Option<Owner> {
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

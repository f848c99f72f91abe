//! Restore of the proofs that an earlier process left in the pinned maps.
//!
//! A death is permanent, so it is restored even if the API no longer shows the pod, or what proved
//! it (a kubelet that restarts can write over the status of a pod that has ended). All else is
//! proven anew: that no other pod holds the IP, and that the Service would still send there. Pods
//! that were only retired are not restored.

use super::Tables;
use crate::facts::{ObjectName, Presence, Protocol, Text, shared};
use crate::state::State;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::RestoredPod;
use epguard_common::{Denial, Mode, ServiceNumber, Uid, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

impl State {
    /// Puts what the tables prove into the index, once everything has been listed. Returns the pods
    /// that the tables name.
    pub(crate) fn apply_restored(&mut self, tables: &Tables, now: Duration) -> Vec<Uid> {
        let cluster = &mut self.cluster;
        let services = services(tables, cluster);
        for (number, service) in &services {
            if let Some(service) = service {
                self.layout.numbers.keep(*number, service);
            }
        }
        let bounds = bounds(tables, &services, cluster);
        for (target, denial) in tables
            .denied
            .iter()
            .filter(|(_, denial)| is_carried_out(denial))
        {
            let (ip, uid) = (target.addr, denial.dead_uid);
            self.denials.restored.insert((ip, uid));
            let (Some(Some(service)), Some(protocol)) = (
                services.get(&target.service),
                Protocol::from_repr(target.protocol),
            ) else {
                continue;
            };
            let node = if denial.boot_id == Uid::NONE {
                None
            } else {
                node_booted(cluster, denial.boot_id)
            };
            let name = match cluster.pods.get(uid) {
                Some(record) => record.pod.name.clone(),
                None => self.known_names.get(&uid).cloned().unwrap_or_default(),
            };
            let namespace = if name.namespace.is_empty() {
                service.namespace.clone()
            } else {
                name.namespace.clone()
            };
            let bound = bounds.get(&uid).copied().unwrap_or(denial.mode);
            cluster.pods.restore_dead(
                RestoredPod {
                    uid,
                    name,
                    node,
                    bound,
                },
                ip,
                now,
            );
            cluster.note_node(uid);
            if cluster
                .pods
                .get(uid)
                .is_some_and(|record| record.uid_state == UidState::Dead)
            {
                let endpoint = Endpoint {
                    ip,
                    port: target.port,
                    protocol,
                };
                // Who wrote a slice that is gone is not known.
                let foreign = !cluster.endpoint_index.lists(service, ip, uid);
                cluster
                    .endpoint_index
                    .record(now, service, endpoint, uid, foreign);
                cluster.endpoint_index.name_namespace(service, &namespace);
            }
        }
        let own = shared(&cluster.settings.node);
        for (ip, orphan_ip) in &tables.terminated {
            if let Some(at) = orphan_ip.lifted {
                self.orphan_ips.note(Presence::Spoke(*ip, at));
            }
            let name = self
                .known_names
                .get(&orphan_ip.dead)
                .cloned()
                .unwrap_or_default();
            let node = Some(own.clone());
            let pod = RestoredPod {
                uid: orphan_ip.dead,
                name,
                node,
                bound: orphan_ip.mode,
            };
            let is_restored = cluster.pods.restore_dead(pod, *ip, now);
            cluster.note_node(orphan_ip.dead);
            if is_restored {
                self.orphan_ips.restore(*ip, *orphan_ip, now);
            }
        }
        let denied = tables.denied.values().map(|denial| denial.dead_uid);
        denied
            .chain(tables.terminated.values().map(|orphan_ip| orphan_ip.dead))
            .collect()
    }
}

/// Whether packets were denied, or would have been in `enforce`, on a death.
fn is_carried_out(denial: &Denial) -> bool {
    denial.uid_state == UidState::Dead && denial.stopped == 0
}

/// The most that dead pods are taken to allow, from what was in force: the lowest mode that the
/// bound of the denial's own Service does not explain; else the highest, since no denial's mode is
/// above what its pod allows.
fn bounds(
    tables: &Tables,
    services: &BTreeMap<ServiceNumber, Option<ObjectName>>,
    cluster: &ClusterIndex,
) -> BTreeMap<Uid, Mode> {
    let mut bounds: BTreeMap<Uid, Mode> = BTreeMap::new();
    let mut unexplained: BTreeMap<Uid, Mode> = BTreeMap::new();
    for (target, denial) in tables
        .denied
        .iter()
        .filter(|(_, denial)| is_carried_out(denial))
    {
        // A Service without an address is being judged again: what it had in force may be out of
        // date.
        let Some(Some(name)) = services.get(&target.service) else {
            continue;
        };
        let highest = bounds.entry(denial.dead_uid).or_default();
        *highest = denial.mode.max(*highest);
        let of_service = cluster
            .service(name)
            .map(|service| cluster.bound_of_service(service));
        if of_service.is_none_or(|bound| denial.mode < bound) {
            let lowest = unexplained.entry(denial.dead_uid).or_insert(denial.mode);
            *lowest = denial.mode.lower(*lowest);
        }
    }
    bounds.extend(unexplained);
    bounds
}

/// The node with a boot id.
fn node_booted(cluster: &ClusterIndex, boot_id: Uid) -> Option<Text> {
    cluster
        .nodes
        .iter()
        .find(|node| node.boot_id == boot_id)
        .map(|node| node.name.clone())
}

/// The Service behind each number: the one that has all of its VIPs. The VIPs may belong to another
/// one by now.
fn services(
    tables: &Tables,
    cluster: &ClusterIndex,
) -> BTreeMap<ServiceNumber, Option<ObjectName>> {
    let mut services = BTreeMap::new();
    for (vip, number) in tables.services.iter() {
        let service = cluster.only_claimant(vip).cloned();
        let agreed = services.entry(*number).or_insert_with(|| service.clone());
        if *agreed != service {
            *agreed = None;
        }
    }
    services
}

//! The proofs that an earlier process left in the pinned maps.
//!
//! A death is permanent, so it is restored even if the API no longer shows the pod, or what proved
//! it (a kubelet that restarts can write over the status of a pod that has ended). All else is
//! proven anew: that no other pod holds the IP, and that the Service would still send there. Pods
//! that were only retired are not restored.

use super::Tables;
use crate::facts::{ObjectName, Protocol, Text, shared};
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::RestoredPod;
use crate::state::index::restore::RestoredDenial;
use crate::state::orphan_ip::OrphanIp;
use epguard_common::{Addr, Denial, Mode, ServiceNumber, Uid, UidState};
use std::collections::BTreeMap;

/// The proofs in the tables of an earlier process.
#[derive(Debug)]
pub struct RestoredProofs {
    /// The numbers of Services.
    pub numbers: Vec<(ServiceNumber, ObjectName)>,
    /// The IP and the dead pod of each denial that was carried out.
    pub carried_out: Vec<(Addr, Uid)>,
    /// Those of them whose Service is known.
    pub denials: Vec<RestoredDenial>,
    /// Orphan IPs, with their last pods.
    pub orphan_ips: Vec<(Addr, OrphanIp, RestoredPod)>,
    /// All pods that the tables name.
    pub pods: Vec<Uid>,
}

impl RestoredProofs {
    /// Reads the tables, once everything has been listed. `names` are those that the earlier
    /// process knew.
    pub fn read(
        tables: &Tables,
        cluster: &ClusterIndex,
        names: &BTreeMap<Uid, ObjectName>,
    ) -> Self {
        let services = services_of(tables, cluster);
        let bounds = bounds_of(tables, &services, cluster);
        let mut proofs = Self {
            numbers: Vec::new(),
            carried_out: Vec::new(),
            denials: Vec::new(),
            orphan_ips: Vec::new(),
            pods: Vec::new(),
        };
        for (number, service) in &services {
            if let Some(service) = service {
                proofs.numbers.push((*number, service.clone()));
            }
        }
        for (key, denial) in tables.denied.iter() {
            proofs.pods.push(denial.dead_uid);
            if !is_carried_out(denial) {
                continue;
            }
            let uid = denial.dead_uid;
            proofs.carried_out.push((key.addr, uid));
            let Some(Some(service)) = services.get(&key.service) else {
                continue;
            };
            let Some(protocol) = Protocol::from_repr(key.protocol) else {
                continue;
            };
            let name = match cluster.pods.get(uid) {
                Some(record) => record.pod.known_name(),
                None => names.get(&uid),
            };
            proofs.denials.push(RestoredDenial {
                service: service.clone(),
                endpoint: Endpoint {
                    ip: key.addr,
                    port: key.port,
                    protocol,
                },
                pod: RestoredPod {
                    uid,
                    name: name.cloned(),
                    node: node_booted(cluster, denial.boot_id),
                    bound: bounds.get(&uid).copied().unwrap_or(denial.mode),
                },
            });
        }
        let own = shared(&cluster.settings.node);
        for (ip, orphan_ip) in &tables.terminated {
            proofs.pods.push(orphan_ip.dead);
            let pod = RestoredPod {
                uid: orphan_ip.dead,
                name: names.get(&orphan_ip.dead).cloned(),
                node: Some(own.clone()),
                bound: orphan_ip.mode,
            };
            proofs.orphan_ips.push((*ip, *orphan_ip, pod));
        }
        proofs
    }
}

/// Whether packets were denied, or would have been in `enforce`, on a death.
fn is_carried_out(denial: &Denial) -> bool {
    denial.uid_state == UidState::Dead && denial.stopped == 0
}

/// The most that dead pods are taken to allow, from what was in force: the lowest mode that the
/// bound of the denial's own Service does not explain; else the highest, since no denial's mode is
/// above what its pod allows.
fn bounds_of(
    tables: &Tables,
    services: &BTreeMap<ServiceNumber, Option<ObjectName>>,
    cluster: &ClusterIndex,
) -> BTreeMap<Uid, Mode> {
    let mut bounds: BTreeMap<Uid, Mode> = BTreeMap::new();
    let mut unexplained: BTreeMap<Uid, Mode> = BTreeMap::new();
    for (key, denial) in tables.denied.iter() {
        if !is_carried_out(denial) {
            continue;
        }
        // A Service without an address is being judged again: what it had in force may be out of
        // date.
        let Some(Some(name)) = services.get(&key.service) else {
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

/// The node with a boot id, if that is known.
fn node_booted(cluster: &ClusterIndex, boot_id: Uid) -> Option<Text> {
    if boot_id == Uid::NONE {
        return None;
    }
    let node = cluster.nodes.iter().find(|node| node.boot_id == boot_id)?;
    Some(node.name.clone())
}

/// The Service behind each number: the one that has all of its VIPs. The VIPs may belong to another
/// one by now.
fn services_of(
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

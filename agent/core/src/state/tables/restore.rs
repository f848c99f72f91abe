//! Restore of the proofs that an earlier process left in the pinned maps.
//!
//! A death is permanent, so it is restored even if the API no longer shows the pod, or what proved it (a kubelet that restarts can
//! write over the status of a pod that has ended). All else is proven anew: that no other pod holds the IP, and that the Service
//! would still send there. Pods that were only retired are not restored.

use super::Tables;
use crate::facts::{Name, Protocol, shared};
use crate::state::State;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use epguard_common::{Denial, ServiceNumber, Uid, UidState};
use std::collections::BTreeMap;
use std::time::Duration;

impl State {
    /// Puts what the tables prove into the index, once everything has been listed. Returns the pods that the tables name.
    pub(crate) fn apply_restored(&mut self, tables: &Tables, now: Duration) -> Vec<Uid> {
        let cluster = &mut self.cluster;
        let services = services(tables, cluster);
        for (number, service) in &services {
            if let Some(service) = service {
                self.layout.numbers.keep(*number, service);
            }
        }
        let is_carried_out = |denial: &Denial| denial.uid_state == UidState::Dead && denial.held == 0;
        for (target, denial) in tables.denied.iter().filter(|(_, denial)| is_carried_out(denial)) {
            let (ip, uid) = (target.addr, denial.dead_uid);
            self.denials.restored.insert((ip, uid));
            let (Some(Some(service)), Some(protocol)) =
                (services.get(&target.service), Protocol::from_repr(target.protocol))
            else {
                continue;
            };
            let mut nodes = cluster.nodes.values().filter(|_| denial.boot_id != Uid::NONE);
            let node = nodes.find(|node| node.boot_id == denial.boot_id).map(|node| node.name.clone());
            cluster.pods.restore_dead((uid, denial.mode), ip, node, now);
            if cluster.pods.get(uid).is_some_and(|record| record.uid_state == UidState::Dead) {
                let endpoint = Endpoint { ip, port: target.port, protocol };
                cluster.endpoint_index.record(now, service, (endpoint, false), uid);
            }
        }
        let own = shared(&cluster.settings.node);
        for (ip, orphan_ip) in &tables.terminated {
            if let Some(at) = orphan_ip.lifted {
                self.orphan_ips.spoke(*ip, at);
            }
            let dead = (orphan_ip.dead, orphan_ip.mode);
            if cluster.pods.restore_dead(dead, *ip, Some(own.clone()), now) {
                self.orphan_ips.restore(*ip, *orphan_ip, now);
            }
        }
        let denied = tables.denied.values().map(|denial| denial.dead_uid);
        denied.chain(tables.terminated.values().map(|orphan_ip| orphan_ip.dead)).collect()
    }
}

/// The Service behind each number: the one that has all of its VIPs. The VIPs may belong to another one by now.
fn services(tables: &Tables, cluster: &ClusterIndex) -> BTreeMap<ServiceNumber, Option<Name>> {
    let mut services = BTreeMap::new();
    for (vip, number) in tables.services.iter() {
        let service = cluster.vips.owner(vip).cloned();
        let agreed = services.entry(*number).or_insert_with(|| service.clone());
        if *agreed != service {
            *agreed = None;
        }
    }
    services
}

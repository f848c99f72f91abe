//! Consequences of a change of the index: Services that wait to be judged, owners, orphan IPs.

use super::judge::AT_ONCE;
use super::lists::Task;
use crate::state::State;
use crate::state::dirty::Dirty;
use crate::state::orphan_ip::OrphanIp;
use crate::state::tables;
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl State {
    /// Draws the consequences of a change, as far as they take no longer than a step. Services that wait longer have no VIPs
    /// meanwhile: what they wait for may end their denials.
    pub(in crate::state) fn apply_consequences(&mut self, now: Duration, dirty: Dirty) {
        self.touch(&dirty);
        self.update_owners(now, &dirty);
        let drained = self.update_draining(&dirty);
        self.lay_out_suspects(&drained);
        let concerns_orphan_ips = self.concerns_orphan_ips(&dirty);
        let services: Vec<_> = dirty.services.keys().cloned().collect();
        for (service, scope) in dirty.services {
            self.queue.push(service, scope);
        }
        if !self.is_half_applied() {
            self.judge_queue(now, AT_ONCE);
        }
        for service in services {
            if self.queue.suspend(&service) && self.layout.has_vips(&service) {
                self.lay_out_service(&service, &BTreeSet::new());
            }
        }
        if concerns_orphan_ips {
            self.prove_orphan_ips();
        }
        self.forget_unneeded(dirty.pods);
    }

    /// True if the change may concern an orphan IP: what shows it, or a pod of this node. While lists are applied, any may.
    fn concerns_orphan_ips(&self, dirty: &Dirty) -> bool {
        let is_own = |uid: &Uid| {
            let pod = self.cluster.pods.get(*uid).map(|record| &record.pod);
            pod.is_none_or(|pod| pod.node.as_deref() == Some(self.node()))
        };
        let listed = dirty.services.values().flat_map(|scope| &scope.ips);
        dirty.orphan_ips
            || self.task.is_some()
            || dirty.pods.iter().any(is_own)
            || (dirty.ips.iter().chain(listed)).any(|ip| self.orphan_ips.mentions(*ip))
    }

    /// Drops those of the pods that the API no longer shows and that nothing refers to.
    pub(in crate::state) fn forget_unneeded(&mut self, pods: impl IntoIterator<Item = Uid>) {
        for uid in pods {
            let absent = self.cluster.pods.get(uid).is_some_and(|record| !record.present);
            if absent && !self.cluster.endpoint_index.knows(uid) && !self.orphan_ips.knows(uid) {
                self.cluster.pods.forget(uid);
            }
        }
    }

    /// Proves orphan IPs again. None is new while a list is applied: a pod further down may hold the IP.
    pub(in crate::state) fn prove_orphan_ips(&mut self) {
        let owner = |ip| self.owners.get(&ip).map(|owner| owner.uid);
        let last_owner = |ip| owner(ip).or_else(|| self.generations.last_owner(ip));
        let mut terminated = if self.is_listed() {
            self.orphan_ips.proven(&self.cluster, last_owner)
        } else {
            BTreeMap::new()
        };
        let before = std::mem::take(&mut self.layout.tables.terminated);
        if matches!(self.task, Some(Task::Apply(_))) {
            let was_proven = |ip: &Addr, orphan_ip: &OrphanIp| {
                let before = before.get(ip).filter(|before| before.dead == orphan_ip.dead);
                before.is_some_and(|before| before.lifted.is_none() || orphan_ip.lifted.is_some())
            };
            terminated.retain(|ip, orphan_ip| was_proven(ip, orphan_ip));
        }
        let differ = |ip: &&Addr| before.get(*ip) != terminated.get(*ip);
        let changed = before.keys().chain(terminated.keys()).filter(differ);
        self.touched.extend(changed.map(|ip| (*ip, ())));
        self.layout.tables.terminated = terminated;
    }

    /// Updates the terminating endpoints of this node. Returns the IPs that are counted from now on, or no longer.
    fn update_draining(&mut self, dirty: &Dirty) -> BTreeSet<Addr> {
        // Some of them may have become a node's address, or stopped to be one.
        let mut changed: BTreeSet<Addr> = self.draining.values().flatten().copied().collect();
        changed.retain(|ip| dirty.ips.contains(ip));
        for uid in &dirty.pods {
            let draining = self.cluster.pods.get(*uid).filter(|record| {
                record.is_live()
                    && record.pod.deleting
                    && !record.pod.host_network
                    && record.pod.node.as_deref() == Some(self.node())
                    && self.cluster.endpoint_index.knows(*uid)
            });
            let after = draining.map(|record| record.pod.ips.clone());
            let before = match &after {
                Some(ips) => self.draining.insert(*uid, ips.clone()),
                None => self.draining.remove(uid),
            };
            if before != after {
                changed.extend(before.into_iter().chain(after).flatten());
            }
        }
        changed
    }

    fn update_owners(&mut self, now: Duration, dirty: &Dirty) {
        for ip in &dirty.ips {
            let before = self.owners.get(ip).copied();
            let mut after = tables::owner(&self.cluster, *ip);
            match &mut after {
                Some(owner) => {
                    let generation = self.generations.owned(now, *ip, before.as_ref(), owner.uid);
                    owner.generation = generation;
                }
                None => before.iter().for_each(|before| self.generations.idle(*ip, before, now)),
            }
            if after != before {
                let is_new = before.is_none() && !self.changed_owners.contains(ip);
                if is_new || self.new_owners.contains_key(ip) {
                    self.new_owners.insert(*ip, ());
                } else {
                    self.changed_owners.insert(*ip);
                }
                self.owners.set(*ip, after);
            }
        }
    }
}

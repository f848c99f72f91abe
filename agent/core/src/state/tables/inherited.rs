//! What an earlier process left in the maps. It stays in force until everything is listed and
//! judged, or a restart would let packets through; but what a fact speaks against ends at once.

use super::{Changes, Tables};
use crate::counts::Groups;
use crate::facts::ObjectName;
use crate::state::affected::Affected;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Target;
use crate::state::proof::OwnPods;
use epguard_common::{Addr, Denial, DenialKey, ServiceNumber, Uid, Vip};
use std::collections::BTreeSet;

/// The entries that are still in force.
#[derive(Debug, Clone)]
pub struct Inherited {
    tables: Tables,
    /// The VIPs of each Service.
    vips: Groups<ServiceNumber, Vip>,
    /// The IPs at which each had denials.
    ips: Groups<ServiceNumber, Addr>,
    /// What was taken out since [`Inherited::take_changes`].
    changes: Changes,
    is_changed: bool,
}

impl Inherited {
    pub fn new(tables: Tables) -> Self {
        let mut vips = Groups::new();
        let mut ips = Groups::new();
        for (vip, number) in tables.services.iter() {
            vips.entry(*number)
                .or_insert_with(BTreeSet::new)
                .insert(*vip);
        }
        for key in tables.denied.keys() {
            ips.entry(key.service)
                .or_insert_with(BTreeSet::new)
                .insert(key.addr);
        }
        Self {
            tables,
            vips,
            ips,
            changes: Changes::default(),
            is_changed: false,
        }
    }

    /// The entries, and the keys of those that were taken out since the last call; none if there
    /// are none.
    pub fn take_changes(&mut self) -> Option<(&Tables, Changes)> {
        let is_changed = std::mem::take(&mut self.is_changed);
        is_changed.then(|| (&self.tables, std::mem::take(&mut self.changes)))
    }

    /// Takes out the entries that something speaks against, of the IPs and Services that a change
    /// is about.
    pub fn contradict(&mut self, cluster: &ClusterIndex, affected: &Affected) {
        let mut ips: BTreeSet<Addr> = affected.all_ips().collect();
        for service in affected.services.keys() {
            ips.extend(self.ips_behind(cluster, service));
        }
        for ip in ips {
            let has_entries =
                self.tables.suspects.contains_key(&ip) || self.tables.terminated.contains_key(&ip);
            if has_entries && self.is_contradicted(cluster, ip) {
                self.end(ip);
            }
        }
    }

    /// Takes out all entries.
    pub fn end_all(&mut self) {
        let ips: Vec<Addr> = self
            .tables
            .suspects
            .keys()
            .chain(self.tables.terminated.keys())
            .copied()
            .collect();
        for ip in ips {
            self.end(ip);
        }
    }

    fn end(&mut self, ip: Addr) {
        let keys: Vec<DenialKey> = self.denials_at(ip).map(|(key, _)| *key).collect();
        for key in keys {
            self.tables.denied.remove(&key);
            self.tables.backends.remove(&key);
            self.changes.denied.insert(key);
        }
        self.tables.suspects.remove(&ip);
        self.changes.suspects.insert(ip);
        self.tables.terminated.remove(&ip);
        self.is_changed = true;
    }

    /// The IPs with denials for packets to a VIP that the Service claims now.
    fn ips_behind(&self, cluster: &ClusterIndex, service: &ObjectName) -> BTreeSet<Addr> {
        let claimed = cluster
            .service(service)
            .map(|service| cluster.claimed_vips(service));
        let numbers = claimed
            .into_iter()
            .flatten()
            .filter_map(|vip| self.tables.services.get(&vip));
        numbers
            .filter_map(|number| self.ips.get(number))
            .flatten()
            .copied()
            .collect()
    }

    /// True if something else than a pod has the IP, if a live pod shows it that is not the
    /// stranger of all denials there, if that one may be meant by now, or if slices list the IP
    /// without a pod, or for a live pod that no denial names.
    fn is_contradicted(&self, cluster: &ClusterIndex, ip: Addr) -> bool {
        let mut numbers = self.denials_at(ip).map(|(key, _)| key.service);
        let is_called = |number| {
            let mut vips = self.vips.get(&number).into_iter().flatten();
            vips.any(|vip| may_be_for_a_holder(cluster, vip, ip))
        };
        if cluster.is_no_pods(ip) || numbers.any(is_called) {
            return true;
        }
        let is_stranger = |uid: Uid| {
            let mut denials = self.denials_at(ip).peekable();
            denials.peek().is_some() && denials.all(|(_, denial)| denial.owner_uid == uid)
        };
        let mut holders = cluster
            .pods
            .live_claimants(ip)
            .filter(|record| record.pod.ips.contains(&ip));
        if holders.any(|record| !is_stranger(record.pod.uid)) {
            return true;
        }
        let may_be_meant = |target: Target| match target {
            None => true,
            Some(uid) => cluster
                .pods
                .get(uid)
                .is_some_and(|record| record.is_live() && !is_stranger(uid)),
        };
        let index = &cluster.endpoint_index;
        let mut targets = index
            .services_at(ip)
            .flat_map(|service| index.targets_at(service, ip));
        targets.any(|(target, listing)| listing.is_current() && may_be_meant(target))
    }

    fn denials_at(&self, ip: Addr) -> impl Iterator<Item = (&DenialKey, &Denial)> {
        let from = self.tables.denied.from(DenialKey {
            addr: ip,
            ..DenialKey::default()
        });
        from.take_while(move |(key, _)| key.addr == ip)
    }
}

/// True if packets to the VIP may be for a pod that shows the IP: a Service that claims the VIP now
/// selects or lists the pod, or the VIP is a host port.
fn may_be_for_a_holder(cluster: &ClusterIndex, vip: &Vip, ip: Addr) -> bool {
    let mut services = cluster
        .claimants(vip)
        .filter_map(|name| cluster.service(name));
    services.any(|service| {
        let own = OwnPods::new(cluster, service);
        cluster
            .pods
            .live_claimants(ip)
            .any(|record| own.is_named(&record.pod))
    }) || cluster.vips.is_host_port(vip)
}

//! What a change of one Service concerns: its own denials, and those of Services that share a VIP with it.

use super::Dirty;
use crate::facts::{Name, Service};
use crate::state::ClusterIndex;
use std::time::Duration;

impl Dirty {
    /// Adds or replaces a Service, or removes it with `None`, and adds what that concerns.
    pub fn changed_service(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        name: &Name,
        service: Option<Service>,
    ) {
        let before = cluster.service(name).cloned();
        if before == service {
            return;
        }
        let same = before.as_ref().zip(service.as_ref());
        if same.is_none_or(|(before, after)| before.vips != after.vips || before.ports != after.ports) {
            let both = before.iter().chain(&service);
            self.ips.extend(both.flat_map(|service| &service.vips));
            self.rivals(cluster, name);
            cluster.set_service(now, name, service);
            self.rivals(cluster, name);
        } else {
            cluster.set_service(now, name, service);
        }
        cluster.note_unselective(name);
        self.service(name);
    }

    /// Adds Services whose VIPs, or the places where their flows are redirected, may have changed.
    pub fn vips<'a>(&mut self, services: impl IntoIterator<Item = &'a Name>) {
        for service in services {
            self.scope(service);
        }
    }

    /// Adds the Services that share a VIP with this one.
    fn rivals(&mut self, cluster: &ClusterIndex, name: &Name) {
        let Some(service) = cluster.service(name) else {
            return;
        };
        match cluster.vips.rivals(service) {
            Some(rivals) => self.vips(rivals.filter(|rival| cluster.stale.lists(rival))),
            None => self.vips(cluster.stale.services()),
        }
    }
}

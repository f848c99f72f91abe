//! Services whose selector proves nothing: their slices list pods that it does not select.

use super::ClusterIndex;
use crate::facts::{Name, Service};

impl ClusterIndex {
    /// True if the selector of the Service does not tell which pods are its own.
    #[must_use]
    pub fn proves_nothing(&self, service: &Service) -> bool {
        service.selector.is_none() || self.unselective.contains(&service.name)
    }

    /// Notes whether the selector of a Service proves anything. True if that changed.
    pub(in crate::state) fn note_unselective(&mut self, name: &Name) -> bool {
        let service = self.service(name).filter(|service| service.selector.is_some());
        let is_unselective = service.is_some_and(|service| {
            let endpoints = self.endpoint_index.of(name);
            let listed =
                endpoints.flat_map(|(endpoint, targets)| targets.iter().map(|one| (endpoint.ip, one)));
            // Most endpoints of an IP name the same pod.
            let mut last = None;
            listed.filter(|(_, (_, listing))| listing.is_current()).any(|(ip, (target, _))| {
                let is_new = last.replace((ip, target)) != Some((ip, target));
                let pod = target.filter(|_| is_new).and_then(|uid| self.pods.get(uid));
                pod.is_some_and(|record| !record.pod.name.1.is_empty() && !service.selects(&record.pod))
            })
        });
        if is_unselective { self.unselective.insert(name.clone()) } else { self.unselective.remove(name) }
    }
}

//! Services whose selector proves nothing: their slices list pods that it does not select, or something else than the `EndpointSlice`
//! controller writes them, or did recently.

use super::ClusterIndex;
use crate::facts::{Name, Service};

impl ClusterIndex {
    /// True if the selector of the Service does not tell which pods are its own.
    #[must_use]
    pub fn proves_nothing(&self, service: &Service) -> bool {
        service.selector.is_none() || self.unselective.contains(&service.name)
    }

    /// Notes whether the selector of a Service proves anything. True if that changed.
    ///
    /// The labels of a pod that only an earlier process saw are not known: it shows nothing beside a pod that the selector does
    /// select, and else that the selector may prove nothing.
    pub(in crate::state) fn note_unselective(&mut self, name: &Name) -> bool {
        let service = self.service(name).filter(|service| service.selector.is_some());
        let is_unselective = service.is_some_and(|service| {
            let (mut is_unknown, mut is_selected) = (false, false);
            // Most endpoints of an IP name the same pod.
            let mut last = None;
            for (endpoint, targets) in self.endpoint_index.of(name) {
                for (target, listing) in targets.iter() {
                    if target.is_some() && listing.is_foreign() {
                        return true;
                    }
                    let is_new = last.replace((endpoint.ip, target)) != Some((endpoint.ip, target));
                    let Some(record) = target.filter(|_| is_new).and_then(|uid| self.pods.get(uid)) else {
                        continue;
                    };
                    match (record.pod.name.1.is_empty(), service.selects(&record.pod)) {
                        (true, _) => is_unknown = true,
                        (false, true) => is_selected = true,
                        (false, false) => return true,
                    }
                }
            }
            is_unknown && !is_selected
        });
        if is_unselective { self.unselective.insert(name.clone()) } else { self.unselective.remove(name) }
    }
}

//! Services whose selector proves nothing: their slices list live pods that it does not select.

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
            let listed = self
                .endpoint_index
                .of(name)
                .flat_map(|(_, targets)| targets.iter());
            let mut listed = listed.filter(|(_, listing)| listing.is_current());
            let pod = |uid| self.pods.get(uid).filter(|record| record.is_live());
            listed.any(|(target, _)| {
                let pod = target.and_then(pod);
                pod.is_some_and(|record| !service.selects(&record.pod))
            })
        });
        if is_unselective {
            self.unselective.insert(name.clone())
        } else {
            self.unselective.remove(name)
        }
    }
}

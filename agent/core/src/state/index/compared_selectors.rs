//! Whether a Service's selector proves which pods are its own.
//!
//! The `EndpointSlice` controller lists the pods that the selector picks. Where something else
//! writes slices, or slices list pods that the selector does not pick, only the writer knows which
//! pod it means next.

use super::ClusterIndex;
use super::pods::Record;
use crate::facts::{ObjectName, Selector, Service, Text};

/// Listings of a Service that are compared with its selector, fewer if that has many labels. Of a
/// Service with more, the selector proves nothing.
const COMPARED: usize = 16_384;

impl ClusterIndex {
    /// True if the selector of the Service does not tell which pods are its own.
    pub(crate) fn proves_nothing(&self, service: &Service) -> bool {
        let name = &service.name;
        service.selector.is_none()
            || self.endpoint_index.has_other_writer(name)
            || !self.selectors.proves(name)
    }

    /// The namespaces whose pods are all the Service's own; empty where its selector proves which
    /// pods are.
    pub(crate) fn namespaces_of_own(&self, service: &Service) -> &[Text] {
        if self.proves_nothing(service) {
            self.endpoint_index.namespaces_of(&service.name)
        } else {
            &[]
        }
    }

    /// Has the Service compared anew with the pods that its slices list, before it is judged.
    pub(super) fn doubt_selector(&mut self, name: &ObjectName) {
        if self
            .services
            .get(name)
            .is_some_and(|service| service.selector.is_some())
        {
            self.selectors.doubt(name);
        } else {
            self.selectors.set_unselective(name, false);
        }
    }

    /// Has all Services compared anew.
    pub(crate) fn doubt_all_selectors(&mut self) {
        let names: Vec<ObjectName> = self.services.keys().cloned().collect();
        for name in &names {
            self.doubt_selector(name);
        }
    }

    /// True if a change of what slices of a Service list may change what its selector proves; they
    /// list this pod now, or did.
    pub(super) fn listing_may_change_selector(
        &self,
        name: &ObjectName,
        pod: Option<&Record>,
    ) -> bool {
        self.selectors.is_unselective(name) || self.is_unselected(name, pod)
    }

    /// The same of a change of a pod that slices list.
    pub(super) fn pod_may_change_selector(
        &self,
        name: &ObjectName,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> bool {
        self.is_unselected(name, before) != self.is_unselected(name, after)
    }

    fn is_unselected(&self, name: &ObjectName, pod: Option<&Record>) -> bool {
        let service = self.service(name);
        service
            .zip(pod)
            .is_some_and(|(service, pod)| is_unselected(service, pod))
    }

    /// Compares a Service with the pods that its slices list, if that is due.
    pub(crate) fn compare_selector(&mut self, name: &ObjectName) {
        if self.selectors.take_doubt(name) {
            let is_unselective = self.lists_unselected(name);
            self.selectors.set_unselective(name, is_unselective);
        }
    }

    fn lists_unselected(&self, name: &ObjectName) -> bool {
        let Some(service) = self.service(name) else {
            return false;
        };
        let listings = self
            .endpoint_index
            .endpoints_of(name)
            .flat_map(|(_, targets)| targets.keys());
        let most = COMPARED / service.selector.as_ref().map_or(1, Selector::work);
        for (number, target) in listings.enumerate() {
            if number >= most {
                return true;
            }
            let record = target.and_then(|uid| self.pods.get(uid));
            if record.is_some_and(|record| is_unselected(service, record)) {
                return true;
            }
        }
        false
    }
}

/// The labels of a pod that only an earlier process saw are not known.
fn is_unselected(service: &Service, record: &Record) -> bool {
    !record.restored && !service.selects(&record.pod)
}

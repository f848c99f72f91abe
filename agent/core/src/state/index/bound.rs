//! Annotation modes in force for a pod or a Service, those of Namespaces included.
//!
//! The most cautious annotation of all concerned objects decides. A Namespace that was not seen (yet, or any more) may
//! have asked to be spared.

use super::ClusterIndex;
use crate::facts::{Pod, Service};
use epguard_common::Mode;

impl ClusterIndex {
    /// Highest mode for packets that are meant for a pod, or would reach it. Of a pod that only an earlier process saw,
    /// nothing but the bound is known.
    #[must_use]
    pub fn bound_of_pod(&self, pod: &Pod) -> Mode {
        let inherited = pod.name.0.is_empty();
        if inherited {
            return pod.bound;
        }
        pod.bound.lower(self.namespaces.bound(&pod.name.0))
    }

    /// Highest mode for packets to a Service.
    #[must_use]
    pub fn bound_of_service(&self, service: &Service) -> Mode {
        service.bound.lower(self.namespaces.bound(&service.name.0))
    }
}

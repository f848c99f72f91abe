//! Most that may be done about somebody: what annotations ask for, Namespaces' included.
//!
//! The most cautious of all who are concerned decides, and a Namespace that was not seen (yet, or any more) may have asked
//! to be spared.

use super::World;
use crate::facts::{Pod, Service};
use epguard_common::Mode;

impl World {
    /// Most that may be done about packets that are meant for a pod, or would reach it. Of one that only an earlier process
    /// saw, nothing but the bound is known.
    #[must_use]
    pub fn bound_of_pod(&self, pod: &Pod) -> Mode {
        let inherited = pod.name.0.is_empty();
        if inherited {
            return pod.bound;
        }
        pod.bound.lower(self.namespaces.bound(&pod.name.0))
    }

    /// Most that may be done about packets to a Service.
    #[must_use]
    pub fn bound_of_service(&self, service: &Service) -> Mode {
        service.bound.lower(self.namespaces.bound(&service.name.0))
    }
}

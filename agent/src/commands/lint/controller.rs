//! The controller of a slice, and so what has to be done to change the slice.

use epguard_core::facts::{ListedSlice, named};

/// The controller that makes the slices of Services that have a selector.
pub const ENDPOINTSLICE: &str = "endpointslice-controller.k8s.io";
/// The controller that copies Endpoints objects of Services that have none.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// The name of the slice's writer, for people.
#[must_use]
pub fn controller(slice: &ListedSlice) -> String {
    let name = slice.managed_by.as_deref();
    name.unwrap_or("none (no managed-by label)").to_owned()
}

/// How an endpoint is taken out of the slice, or corrected.
#[must_use]
pub fn correct(slice: &ListedSlice, how: &str) -> String {
    let (namespace, name) = &slice.name;
    // An Endpoints object has its Service's name.
    let service = named(slice.service.as_ref().unwrap_or(&slice.name));
    match slice.managed_by.as_deref() {
        Some(ENDPOINTSLICE) => format!(
            "{how}: {ENDPOINTSLICE} should have, so check that kube-controller-manager runs, and its log about {service}"
        ),
        Some(MIRRORING) => format!("{how} in the Endpoints object {service}, of which this is a copy"),
        Some(other) => format!("have {other} {how}; it alone writes this slice"),
        None => format!("{how}: kubectl -n {namespace} edit endpointslice {name}; no controller does it"),
    }
}

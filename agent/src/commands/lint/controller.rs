//! The controller of a slice, and so what has to be done to change the slice.

use epguard_core::facts::{ListedSlice, Name, named};

/// The controller that makes the slices of Services that have a selector.
pub const ENDPOINTSLICE: &str = "endpointslice-controller.k8s.io";
/// The controller that copies Endpoints objects of Services that have none.
pub const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// The name of the slice's writer, for people.
#[must_use]
pub fn controller(slice: &ListedSlice) -> String {
    slice
        .managed_by
        .clone()
        .unwrap_or_else(|| "none (no managed-by label)".to_owned())
}

/// How an endpoint is taken out of the slice, or corrected.
#[must_use]
pub fn correct(slice: &ListedSlice, how: &str) -> String {
    let (namespace, name) = &slice.name;
    match slice.managed_by.as_deref() {
        Some(ENDPOINTSLICE) => format!(
            "{how}: {ENDPOINTSLICE} should have, so check that kube-controller-manager runs, and its log about {}",
            named(slice.service.as_ref().unwrap_or(&slice.name))
        ),
        Some(MIRRORING) => format!(
            "{how} in the Endpoints object {}, of which this is a copy",
            endpoints(slice)
        ),
        Some(other) => format!("have {other} {how}; it alone writes this slice"),
        None => format!("{how}: kubectl -n {namespace} edit endpointslice {name}; no controller does it"),
    }
}

/// The Endpoints object that a mirrored slice is copied from has the Service's name.
fn endpoints(slice: &ListedSlice) -> String {
    let of: &Name = slice.service.as_ref().unwrap_or(&slice.name);
    named(of)
}

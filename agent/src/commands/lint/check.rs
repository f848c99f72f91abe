//! All checks of one moment. Pure.

use super::cluster::{Cluster, Listed};
use super::finding::Finding;
use super::{endpoints, pods, services};
use epguard_core::facts::ListedSlice;

/// All findings, sorted. `namespace`: of pods only those that concern it; slices are checked as given.
#[must_use]
pub fn findings(listed: &Listed, namespace: Option<&str>) -> Vec<Finding> {
    let cluster = Cluster::new(listed);
    let slices: Vec<&ListedSlice> = listed.slices.iter().filter(|slice| !is_the_apis_own(slice)).collect();
    let mut findings = services::check(&cluster, &slices);
    for slice in slices {
        findings.extend(slice.endpoints.iter().filter_map(|e| endpoints::check(&cluster, slice, e)));
    }
    findings.extend(pods::check(&cluster, namespace));
    findings.sort();
    findings
}

/// True for `default/kubernetes`, which the API servers write themselves, with neither targetRef nor controller.
fn is_the_apis_own(slice: &ListedSlice) -> bool {
    let service = slice.service.as_ref();
    service.is_some_and(|(namespace, name)| namespace == "default" && name == "kubernetes")
}

//! Checks each Service with its slices: which controllers make them, and do they mix networks?

use super::cluster::Cluster;
use super::controller::{ENDPOINTSLICE, MIRRORING, controller};
use super::finding::{Finding, Object, Problem, Severity};
use epguard_common::UidState;
use epguard_core::facts::{ListedSlice, Name, Pod, Service, named};
use std::collections::{BTreeMap, BTreeSet};

/// The problems of Services that exist, as their slices show.
#[must_use]
pub fn check(cluster: &Cluster<'_>, slices: &[&ListedSlice]) -> Vec<Finding> {
    let mut by_service: BTreeMap<&Name, Vec<&ListedSlice>> = BTreeMap::new();
    for slice in slices {
        if let Some(service) = &slice.service {
            by_service.entry(service).or_default().push(slice);
        }
    }
    let mut findings = Vec::new();
    for (name, slices) in by_service {
        let Some(service) = cluster.service(name) else {
            continue;
        };
        let makers: BTreeSet<Option<&str>> = slices.iter().map(|slice| slice.managed_by.as_deref()).collect();
        for slice in &slices {
            findings.extend(foreign(service, slice, makers.len()));
            findings.extend(mirrored(cluster, slice));
        }
        findings.extend(mixed_networks(cluster, service, &slices));
    }
    findings
}

fn foreign(service: &Service, slice: &ListedSlice, makers: usize) -> Option<Finding> {
    let ours = slice.managed_by.as_deref() == Some(ENDPOINTSLICE);
    let (namespace, slice_name) = &slice.name;
    let service_name = named(&service.name);
    let delete = format!("kubectl -n {namespace} delete endpointslice {slice_name}");
    let (what, fix) = match (&service.selector, ours) {
        (Some(_), false) => (
            format!(
                "Service {service_name} has a selector, so {ENDPOINTSLICE} keeps its slices; this one lists \
                 endpoints beside them, and is not updated when pods come and go"
            ),
            format!("remove it ({delete}), or the Service's selector"),
        ),
        (None, true) => (
            format!(
                "Service {service_name} has no selector, so {ENDPOINTSLICE} does not update this slice any more"
            ),
            format!("remove it ({delete}), or give the Service its selector back"),
        ),
        (None, false) if makers > 1 => (
            format!("Service {service_name} has slices of {makers} controllers, which do not coordinate"),
            format!("let one of them make all slices, and remove the others ({delete})"),
        ),
        _ => return None,
    };
    Some(Finding::of_slice(slice, Problem::ForeignController, Severity::Warning, what, fix))
}

/// Finds a mirrored slice. The mirroring controller copies what another client wrote: it notices no pod's end.
fn mirrored(cluster: &Cluster<'_>, slice: &ListedSlice) -> Option<Finding> {
    let of_pods = slice
        .endpoints
        .iter()
        .any(|endpoint| endpoint.target.is_some() || cluster.holders(endpoint.ip).next().is_some());
    if slice.managed_by.as_deref() != Some(MIRRORING) || !of_pods {
        return None;
    }
    let (namespace, name) = slice.service.as_ref().unwrap_or(&slice.name);
    let what = format!(
        "lists pods as the Endpoints object {namespace}/{name} does, which its writer has to keep correct by hand"
    );
    let fix = "give the Service a selector, or have the writer make EndpointSlices with targetRef and UID"
        .to_owned();
    Some(Finding::of_slice(slice, Problem::Mirrored, Severity::Warning, what, fix))
}

fn mixed_networks(cluster: &Cluster<'_>, service: &Service, slices: &[&ListedSlice]) -> Option<Finding> {
    let targets =
        slices.iter().flat_map(|slice| &slice.endpoints).filter_map(|endpoint| endpoint.target.as_ref());
    let listed: BTreeMap<&Name, &Pod> = targets
        .filter_map(|target| cluster.pod(target.uid?))
        .filter(|pod| pod.uid_state == UidState::Live)
        .map(|pod| (&pod.name, pod))
        .collect();
    let (host, own): (Vec<&Pod>, Vec<&Pod>) = listed.into_values().partition(|pod| pod.host_network);
    if host.is_empty() || own.is_empty() {
        return None;
    }
    let what = format!(
        "lists {} on the host network, whose addresses are their nodes' and are never denied, beside {} with their own",
        count(&host),
        count(&own)
    );
    let fix =
        "give the pods of the host network a Service of their own, or expect no protection there".to_owned();
    let makers: BTreeSet<String> = slices.iter().map(|slice| controller(slice)).collect();
    Some(Finding {
        object: Object::new("Service", &service.name),
        controller: makers.into_iter().collect::<Vec<_>>().join(", "),
        address: None,
        problem: Problem::HostNetworkMix,
        severity: Severity::Warning,
        what,
        fix,
    })
}

/// `pod ro/h`, or `3 pods (ro/a, ...)`.
fn count(pods: &[&Pod]) -> String {
    match pods {
        [pod] => format!("pod {}", named(&pod.name)),
        [first, ..] => format!("{} pods ({}, ...)", pods.len(), named(&first.name)),
        [] => "no pod".to_owned(),
    }
}

//! Checks each Service with its slices, which controllers make them, and do they mix networks; and
//! pods that share an address.

use super::cluster::{Cluster, Listed};
use super::endpoints;
use super::finding::{ENDPOINTSLICE, Finding, MIRRORING, Object, Problem, Severity, controller};
use crate::shared::output::in_words;
use epguard_common::{Addr, UidState};
use epguard_core::facts::{ListedSlice, ObjectName, Pod, Service};
use std::collections::{BTreeMap, BTreeSet};

/// All findings, sorted. `namespace`: of pods only those that concern it; slices are checked as
/// given.
pub fn findings(listed: &Listed, namespace: Option<&str>) -> Vec<Finding> {
    let cluster = Cluster::new(listed);
    // The API servers write this one themselves, with neither targetRef nor controller.
    let own = ObjectName::new("default", "kubernetes");
    let slices = || {
        listed
            .slices
            .iter()
            .filter(|listed| listed.facts.service.as_ref() != Some(&own))
    };
    let mut by_service: BTreeMap<&ObjectName, Vec<&ListedSlice>> = BTreeMap::new();
    for slice in slices() {
        if let Some(service) = &slice.facts.service {
            by_service.entry(service).or_default().push(slice);
        }
    }
    let services = by_service
        .into_iter()
        .filter_map(|(name, slices)| Some((cluster.agent().service(name)?, slices)));
    let mut findings: Vec<Finding> = services
        .flat_map(|(service, slices)| of_service(&cluster, service, &slices))
        .collect();
    for slice in slices() {
        findings.extend(endpoints::check(&cluster, slice));
    }
    findings.extend(shared(&cluster, namespace));
    findings.sort();
    findings
}

fn of_service(cluster: &Cluster<'_>, service: &Service, slices: &[&ListedSlice]) -> Vec<Finding> {
    let makers: BTreeSet<Option<&str>> = slices
        .iter()
        .map(|slice| slice.managed_by.as_deref())
        .collect();
    let of_slice = |slice: &&ListedSlice| {
        [
            foreign(service, slice, makers.len()),
            mirrored(cluster, slice),
        ]
    };
    let of_slices = slices.iter().flat_map(of_slice);
    of_slices
        .chain([mixed_networks(cluster, service, slices)])
        .flatten()
        .collect()
}

fn foreign(service: &Service, slice: &ListedSlice, makers: usize) -> Option<Finding> {
    let ours = slice.managed_by.as_deref() == Some(ENDPOINTSLICE);
    let ObjectName {
        namespace,
        name: slice_name,
    } = &slice.facts.name;
    let service_name = service.name.to_string();
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
            format!(
                "Service {service_name} has slices of {makers} controllers, which do not coordinate"
            ),
            format!("let one of them make all slices, and remove the others ({delete})"),
        ),
        _ => return None,
    };
    Some(Finding::of_slice(
        slice,
        Problem::ForeignController,
        what,
        fix,
    ))
}

/// Finds a mirrored slice. The mirroring controller copies what another client wrote: it notices no
/// pod's end.
fn mirrored(cluster: &Cluster<'_>, slice: &ListedSlice) -> Option<Finding> {
    let mut endpoints = slice.facts.endpoints.iter().zip(&slice.targets);
    let of_pods =
        endpoints.any(|(one, target)| target.is_some() || !cluster.holders(one.ip).is_empty());
    if slice.managed_by.as_deref() != Some(MIRRORING) || !of_pods {
        return None;
    }
    let service = slice.facts.service.as_ref().unwrap_or(&slice.facts.name);
    let what = format!(
        "lists pods as the Endpoints object {service} does, which its writer has to keep correct by hand"
    );
    let fix = "give the Service a selector, or have the writer make EndpointSlices with targetRef and UID";
    Some(Finding::of_slice(slice, Problem::Mirrored, what, fix))
}

fn mixed_networks(
    cluster: &Cluster<'_>,
    service: &Service,
    slices: &[&ListedSlice],
) -> Option<Finding> {
    let endpoints = slices.iter().flat_map(|slice| &slice.facts.endpoints);
    let pods = endpoints.filter_map(|endpoint| cluster.pod(endpoint.target?));
    let listed: BTreeMap<&ObjectName, &Pod> = pods
        .filter(|pod| pod.uid_state == UidState::Live)
        .map(|pod| (&pod.name, pod))
        .collect();
    let (host, own): (Vec<&Pod>, Vec<&Pod>) =
        listed.into_values().partition(|pod| pod.host_network);
    if host.is_empty() || own.is_empty() {
        return None;
    }
    let makers: BTreeSet<String> = slices.iter().map(|slice| controller(slice)).collect();
    let what = format!(
        "lists {} on the host network, whose addresses are their nodes' and are never denied, beside {} with their own",
        count(&host),
        count(&own)
    );
    let fix =
        "give the pods of the host network a Service of their own, or expect no protection there";
    let makers = makers.into_iter().collect::<Vec<_>>().join(", ");
    let service = Object::new("Service", &service.name);
    Some(Finding::new(
        service,
        makers,
        Problem::HostNetworkMix,
        what,
        fix,
    ))
}

/// Pods that share an address, as the CNI's IPAM gave it out twice, or gave out one that is no
/// pod's: at most one finding of each kind for each address, on the first of the pods. Further
/// networks may overlap. `namespace`: only addresses that concern one of its pods.
fn shared(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<Finding> {
    let at = |ip: Addr| {
        let mut pods = cluster.holders(ip);
        pods.retain(|pod| pod.ips.contains(&ip));
        let concerned = |namespace| pods.iter().any(|pod| &*pod.name.namespace == namespace);
        if namespace.is_none_or(concerned) {
            pods
        } else {
            Vec::new()
        }
    };
    let duplicates = cluster.agent().pods.shared_ips().filter_map(|ip| {
        // Pods whose IP outlives them may share it, such as those of a machine that migrates.
        let mut holders = at(ip);
        holders.retain(|pod| !cluster.is_spared(pod));
        let what = format!("{} have the same address", pods(holders.iter().copied()));
        let fix = "delete all of these pods but one, so that they come back with others; then check for nodes with the same range, \
                   or leases that the IPAM lost";
        (holders.len() > 1).then(|| {
            let found = of_ipam(ip, &holders, Problem::DuplicateAddress, what, fix);
            Finding { severity: Severity::Error, ..found }
        })
    });
    let foreign = cluster.not_pods.iter().filter_map(|(ip, others)| {
        let holders = at(*ip);
        let what = format!("{} has the address of {}", pods(holders.iter().copied()), in_words(others));
        let fix = "see which ranges the IPAM, the Services and the nodes use: one of them gets the other's packets, and epguard \
                   denies none of these";
        (!holders.is_empty()).then(|| of_ipam(*ip, &holders, Problem::ForeignAddress, what, fix))
    });
    duplicates.chain(foreign).collect()
}

fn of_ipam(ip: Addr, holders: &[&Pod], problem: Problem, what: String, fix: &str) -> Finding {
    let nodes: BTreeSet<&str> = holders
        .iter()
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let ipam = format!("IPAM of the CNI on {}", nodes.join(", "));
    let found = Finding::new(
        Object::new("Pod", &holders[0].name),
        ipam,
        problem,
        what,
        fix,
    );
    Finding {
        address: Some(ip.ip()),
        ..found
    }
}

/// Names of pods: `a/b, a/c and a/d`.
pub fn pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| pod.name.to_string()).collect();
    in_words(&names)
}

/// `pod ro/h`, or `3 pods (ro/a, ...)`.
fn count(pods: &[&Pod]) -> String {
    match pods {
        [pod] => format!("pod {}", pod.name),
        [first, ..] => format!("{} pods ({}, ...)", pods.len(), first.name),
        [] => "no pod".to_owned(),
    }
}

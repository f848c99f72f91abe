//! Checks each Service with its slices, which controllers make them, and do they mix networks; and
//! pods that share an address.

use super::cluster::{Cluster, ListedObjects};
use super::endpoints;
use super::finding::{
    ENDPOINTSLICE, LintFinding, LintObject, LintProblem, MIRRORING, Severity, controller_name,
    pod_names,
};
use crate::shared::output::in_words;
use epguard_common::{Addr, UidState};
use epguard_core::facts::{ListedSlice, ObjectName, Pod, Service};
use std::collections::{BTreeMap, BTreeSet};

/// All findings, sorted. `namespace`: of pods only those that concern it; slices are checked as
/// given.
pub fn find_problems(listed: &ListedObjects, namespace: Option<&str>) -> Vec<LintFinding> {
    let cluster = Cluster::new(listed);
    // The API servers write this one themselves, with neither targetRef nor controller.
    let of_the_api = ObjectName::new("default", "kubernetes");
    let mut findings = Vec::new();
    let mut by_service: BTreeMap<&ObjectName, Vec<&ListedSlice>> = BTreeMap::new();
    for slice in &listed.slices {
        if slice.facts.service.as_ref() == Some(&of_the_api) {
            continue;
        }
        findings.extend(endpoints::check(&cluster, slice));
        if let Some(service) = &slice.facts.service {
            by_service.entry(service).or_default().push(slice);
        }
    }
    for (name, slices) in by_service {
        if let Some(service) = cluster.agent().service(name) {
            findings.extend(check_service(&cluster, service, &slices));
        }
    }
    findings.extend(shared_addresses(&cluster, namespace));
    findings.sort();
    findings
}

fn check_service(
    cluster: &Cluster<'_>,
    service: &Service,
    slices: &[&ListedSlice],
) -> Vec<LintFinding> {
    let makers: BTreeSet<Option<&str>> = slices
        .iter()
        .map(|slice| slice.managed_by.as_deref())
        .collect();
    let mut findings = Vec::new();
    for slice in slices {
        findings.extend(foreign_controller(service, slice, makers.len()));
        findings.extend(mirrored_slice(cluster, slice));
    }
    findings.extend(mixed_networks(cluster, service, slices));
    findings
}

fn foreign_controller(
    service: &Service,
    slice: &ListedSlice,
    makers: usize,
) -> Option<LintFinding> {
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
    Some(LintFinding::of_slice(
        slice,
        LintProblem::ForeignController,
        what,
        fix,
    ))
}

/// Finds a mirrored slice. The mirroring controller copies what another client wrote: it notices no
/// pod's end.
fn mirrored_slice(cluster: &Cluster<'_>, slice: &ListedSlice) -> Option<LintFinding> {
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
    Some(LintFinding::of_slice(
        slice,
        LintProblem::Mirrored,
        what,
        fix,
    ))
}

fn mixed_networks(
    cluster: &Cluster<'_>,
    service: &Service,
    slices: &[&ListedSlice],
) -> Option<LintFinding> {
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
    let makers: BTreeSet<String> = slices.iter().map(|slice| controller_name(slice)).collect();
    let what = format!(
        "lists {} on the host network, whose addresses are their nodes' and are never denied, beside {} with their own",
        pod_or_count(&host),
        pod_or_count(&own)
    );
    let fix =
        "give the pods of the host network a Service of their own, or expect no protection there";
    let makers = makers.into_iter().collect::<Vec<_>>().join(", ");
    let service = LintObject::new("Service", &service.name);
    Some(LintFinding::new(
        service,
        makers,
        LintProblem::HostNetworkMix,
        what,
        fix,
    ))
}

/// Pods that share an address, as the CNI's IPAM gave it out twice, or gave out one that is no
/// pod's: at most one finding of each kind for each address, on the first of the pods. Further
/// networks may overlap. `namespace`: only addresses that concern one of its pods.
fn shared_addresses(cluster: &Cluster<'_>, namespace: Option<&str>) -> Vec<LintFinding> {
    let mut findings = Vec::new();
    for ip in cluster.agent().pods.shared_ips() {
        findings.extend(duplicate_address(cluster, ip, namespace));
    }
    for (ip, others) in &cluster.not_pods {
        findings.extend(foreign_address(cluster, *ip, others, namespace));
    }
    findings
}

fn duplicate_address(
    cluster: &Cluster<'_>,
    ip: Addr,
    namespace: Option<&str>,
) -> Option<LintFinding> {
    let mut holders = concerned_holders(cluster, ip, namespace);
    // Pods whose IP outlives them may share it, such as those of a machine that migrates.
    holders.retain(|pod| !cluster.is_spared(pod));
    if holders.len() < 2 {
        return None;
    }
    let what = format!(
        "{} have the same address",
        pod_names(holders.iter().copied())
    );
    let fix = "delete all of these pods but one, so that they come back with others; then check \
               for nodes with the same range, or leases that the IPAM lost";
    let found = of_ipam(ip, &holders, LintProblem::DuplicateAddress, what, fix);
    Some(LintFinding {
        severity: Severity::Error,
        ..found
    })
}

fn foreign_address(
    cluster: &Cluster<'_>,
    ip: Addr,
    others: &[String],
    namespace: Option<&str>,
) -> Option<LintFinding> {
    let holders = concerned_holders(cluster, ip, namespace);
    if holders.is_empty() {
        return None;
    }
    let what = format!(
        "{} has the address of {}",
        pod_names(holders.iter().copied()),
        in_words(others)
    );
    let fix = "see which ranges the IPAM, the Services and the nodes use: one of them gets the \
               other's packets, and epguard denies none of these";
    let problem = LintProblem::ForeignAddress;
    Some(of_ipam(ip, &holders, problem, what, fix))
}

/// The live pods that have the address on their own network; none if none of them is of the
/// namespace.
fn concerned_holders<'a>(
    cluster: &'a Cluster<'_>,
    ip: Addr,
    namespace: Option<&str>,
) -> Vec<&'a Pod> {
    let mut holders = cluster.holders(ip);
    holders.retain(|pod| pod.ips.contains(&ip));
    if let Some(namespace) = namespace
        && !holders.iter().any(|pod| &*pod.name.namespace == namespace)
    {
        return Vec::new();
    }
    holders
}

fn of_ipam(
    ip: Addr,
    holders: &[&Pod],
    problem: LintProblem,
    what: String,
    fix: &str,
) -> LintFinding {
    let nodes: BTreeSet<&str> = holders
        .iter()
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let ipam = format!("IPAM of the CNI on {}", nodes.join(", "));
    let found = LintFinding::new(
        LintObject::new("Pod", &holders[0].name),
        ipam,
        problem,
        what,
        fix,
    );
    LintFinding {
        address: Some(ip.ip()),
        ..found
    }
}

/// `pod ro/h`, or `3 pods (ro/a, ...)`.
fn pod_or_count(pods: &[&Pod]) -> String {
    match pods {
        [pod] => format!("pod {}", pod.name),
        [first, ..] => format!("{} pods ({}, ...)", pods.len(), first.name),
        [] => "no pod".to_owned(),
    }
}

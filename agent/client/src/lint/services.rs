//! Checks each Service with its slices: which controllers make them, and do they mix networks.

use super::LintReport;
use super::addresses;
use super::advice::show_writers;
use super::cluster::{Cluster, ListedObjects};
use super::endpoints::{self, Checked, UnknownPod};
use super::finding::{
    ENDPOINTSLICE, LintFinding, LintObject, LintProblem, NAMES, Severity, controller_name,
};
use crate::shared::output::{after, count, first};
use epguard_common::UidState;
use epguard_core::facts::{ListedSlice, ObjectName, Pod, Service};
use std::collections::{BTreeMap, BTreeSet};

/// All findings, sorted, and what could not be checked. `namespace`: of pods only those that
/// concern it; slices are checked as given.
pub fn check(listed: &ListedObjects, namespace: Option<&str>) -> LintReport {
    let cluster = Cluster::new(listed);
    // The API servers write this one themselves, with neither targetRef nor controller.
    let of_the_api = ObjectName::new("default", "kubernetes");
    let mut by_service: BTreeMap<Option<&ObjectName>, Vec<&ListedSlice>> = BTreeMap::new();
    for slice in &listed.slices {
        if slice.facts.service.as_ref() != Some(&of_the_api) {
            let slices = by_service.entry(slice.facts.service.as_ref()).or_default();
            slices.push(slice);
        }
    }
    let mut findings = Vec::new();
    let mut unchecked = listed.unlisted.to_lines();
    for (name, slices) in by_service {
        let service = name.and_then(|name| cluster.agent().service(name));
        let (abandoned, kept): (Vec<&ListedSlice>, Vec<&ListedSlice>) = slices
            .iter()
            .partition(|slice| service.is_some_and(|service| is_abandoned(service, slice)));
        let mut unknown = BTreeMap::new();
        findings.extend(problems_of_endpoints(&cluster, &kept, &mut unknown));
        let wrong = problems_of_endpoints(&cluster, &abandoned, &mut unknown);
        for (endpoints, number) in &unknown {
            unchecked.push(endpoints.to_line(*number));
        }
        if let Some(service) = service {
            findings.extend(abandoned_slices(service, &abandoned, &wrong));
            findings.extend(several_writers(service, &slices));
            findings.extend(mixed_networks(&cluster, service, &slices));
        }
    }
    findings.extend(addresses::check(&cluster, &listed.pods, namespace));
    findings.sort();
    LintReport {
        slices: listed.slices.len(),
        pods: listed.pods.len(),
        findings,
        unchecked,
    }
}

/// Endpoints of a Service that cannot be checked for one reason, and how many these are.
type Unknown = BTreeMap<UnknownEndpoints, usize>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnknownEndpoints {
    service: Option<String>,
    controller: String,
    why: UnknownPod,
}

fn problems_of_endpoints(
    cluster: &Cluster<'_>,
    slices: &[&ListedSlice],
    unknown: &mut Unknown,
) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for slice in slices {
        for checked in endpoints::check(cluster, slice) {
            match checked {
                Checked::Good => {}
                Checked::Problem(finding) => found.push(finding),
                Checked::Unknown(why) => {
                    let endpoints = UnknownEndpoints {
                        service: slice.facts.service.as_ref().map(ToString::to_string),
                        controller: controller_name(slice),
                        why,
                    };
                    *unknown.entry(endpoints).or_default() += 1;
                }
            }
        }
    }
    found
}

impl UnknownEndpoints {
    fn to_line(&self, number: usize) -> String {
        let of = after(" of Service ", self.service.as_ref());
        let why = match self.why {
            UnknownPod::NotListed => "the pods that are meant were not listed",
            UnknownPod::Elsewhere => {
                "neither the pods nor the addresses are this cluster's, and may be another's"
            }
        };
        let endpoints = count(number, "endpoint");
        format!("{endpoints}{of}, controller {}: {why}", self.controller)
    }
}

/// True if the slice is the `EndpointSlice` controller's, which updates those of Services with a
/// selector alone (`syncService`, endpointslice controller 1.36).
fn is_abandoned(service: &Service, slice: &ListedSlice) -> bool {
    service.selector.is_none() && slice.managed_by.as_deref() == Some(ENDPOINTSLICE)
}

/// Slices that are updated no more, and the problems of their endpoints, which have this cause.
fn abandoned_slices(
    service: &Service,
    slices: &[&ListedSlice],
    wrong: &[LintFinding],
) -> Option<LintFinding> {
    if slices.is_empty() {
        return None;
    }
    let names = names_of(slices);
    let mut what = format!(
        "has no selector, so {ENDPOINTSLICE} does not update its slices ({}): they stay as they are when pods end or come",
        first(&names, NAMES, names.len())
    );
    let worst = wrong.iter().map(|finding| finding.severity).min();
    let wrong: Vec<String> = wrong.iter().map(in_short).collect();
    if !wrong.is_empty() {
        what = format!(
            "{what}; wrong already: {}",
            first(&wrong, NAMES, wrong.len())
        );
    }
    let keep = if worst == Some(Severity::Error) {
        "keep them, as the endpoints that are right may be in service"
    } else {
        "leave them, as clients reach these endpoints"
    };
    let fix = format!(
        "{keep}; who changed the Service, and when: {}",
        show_writers("service", &service.name)
    );
    let found = of_service(service, LintProblem::AbandonedSlice, what, fix);
    Some(LintFinding {
        controller: ENDPOINTSLICE.to_owned(),
        severity: worst.unwrap_or(Severity::Warning),
        ..found
    })
}

fn in_short(finding: &LintFinding) -> String {
    let address = after("", finding.address);
    format!("{address} ({})", finding.what)
}

fn names_of(slices: &[&ListedSlice]) -> Vec<String> {
    slices
        .iter()
        .map(|slice| slice.facts.name.name.to_string())
        .collect()
}

/// A Service with slices of writers that do not know of each other. Controllers of several clusters
/// and of scale from zero do that on purpose.
fn several_writers(service: &Service, slices: &[&ListedSlice]) -> Option<LintFinding> {
    let mut others = slices.to_vec();
    others.retain(|slice| slice.managed_by.as_deref() != Some(ENDPOINTSLICE));
    let writers: BTreeSet<Option<&str>> = others
        .iter()
        .map(|slice| slice.managed_by.as_deref())
        .collect();
    let first_other = others.first()?;
    let has_selector = service.selector.is_some();
    if !has_selector && writers.len() == 1 {
        return None;
    }
    let names = names_of(&others);
    let names = first(&names, NAMES, names.len());
    let what = if has_selector {
        format!(
            "has a selector, by which {ENDPOINTSLICE} keeps its slices, and {} of others ({names}): the selector does \
             not tell which pods are its own",
            count(others.len(), "slice")
        )
    } else {
        let writers = count(writers.len(), "controller");
        format!("has slices of {writers}, which do not coordinate ({names})")
    };
    let fix = format!(
        "nothing has to change if these controllers are meant to add endpoints, as those of several clusters and of \
         scale from zero do; who writes such a slice: {}",
        show_writers("endpointslice", &first_other.facts.name)
    );
    let makers: BTreeSet<String> = slices.iter().map(|slice| controller_name(slice)).collect();
    let found = of_service(service, LintProblem::ForeignController, what, fix);
    Some(LintFinding {
        controller: makers.into_iter().collect::<Vec<_>>().join(", "),
        ..found
    })
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
        "nothing has to change: packets to the pods of the host network pass, as without epguard"
            .to_owned();
    let found = of_service(service, LintProblem::HostNetworkMix, what, fix);
    Some(LintFinding {
        controller: makers.into_iter().collect::<Vec<_>>().join(", "),
        ..found
    })
}

fn of_service(service: &Service, problem: LintProblem, what: String, fix: String) -> LintFinding {
    let object = LintObject::new("Service", &service.name);
    LintFinding::new(object, String::new(), problem, what, fix)
}

/// `pod ro/h`, or `3 pods (ro/a, ...)`.
fn pod_or_count(pods: &[&Pod]) -> String {
    match pods {
        [pod] => format!("pod {}", pod.name),
        [first, ..] => format!("{} pods ({}, ...)", pods.len(), first.name),
        [] => "no pod".to_owned(),
    }
}

//! What the agent knows about one IP at a moment, with names: all that a verdict rests on.

use crate::facts::ObjectName;
use crate::state::State;
use crate::state::denials::Denied;
use crate::state::index::endpoints::{Endpoint, Targets};
use crate::state::index::pods::Record;
use crate::state::not_proven::{Exemption, NotProven};
use crate::state::proof::{judge_endpoints, work_to_judge};
use epguard_common::{Addr, Mode, Reason, Uid, UidState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All facts about an IP. Equal views lead to equal verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// Whether every watch has shown a whole list; until then nothing is denied.
    pub synced: bool,
    /// Why the IP is never judged; none if it is judged.
    pub spared: Option<NotProven>,
    /// Pods that show the IP, and pods that a Service lists there. Sorted by name.
    pub pods: Vec<PodView>,
    /// Services that list the IP, or did within the last 10 minutes. Sorted by name.
    pub services: Vec<ServiceView>,
    /// The dead pod that had the orphan IP last: packets to the IP itself are denied as
    /// `terminated`.
    pub terminated: Option<String>,
    /// True if more Services list the IP, or more pods show it, than the history keeps: some are
    /// left out.
    #[serde(default)]
    pub partial: bool,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// `namespace/name`.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node it is bound to.
    pub node: Option<String>,
    /// What is proven of it: `live`, `retired` or `dead`.
    #[serde(alias = "life")]
    pub uid_state: UidState,
    /// Why the pod's end proves nothing; none if it does.
    #[serde(default)]
    pub exempt: Option<Exemption>,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Whether the API shows the object.
    pub present: bool,
    /// Whether it shows the IP.
    pub shows: bool,
    /// The order in which its claim was first seen; one list has one number. None if the pod never
    /// published the IP.
    pub order: Option<u64>,
}

/// A Service, as far as it concerns the IP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// `namespace/name`.
    pub name: String,
    /// The endpoints that it lists at the IP. Sorted by port.
    pub endpoints: Vec<EndpointView>,
}

/// A port of a Service at the IP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Target port, host order.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The pods that slices name behind it, or named.
    pub targets: Vec<TargetView>,
    /// The denial, if one is proven.
    pub denial: Option<DenialView>,
    /// Why no denial is proven; none if one is.
    pub not_proven: Option<NotProven>,
}

/// A pod that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    /// Its UID; none where the slice names no pod.
    pub uid: Option<String>,
    /// `namespace/name`, or the UID of one unknown; none where the slice names no pod.
    pub pod: Option<String>,
    /// Whether a slice lists it now; otherwise one did recently.
    pub listed: bool,
    /// Whether a slice lists it as ready now.
    pub ready: bool,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DenialView {
    /// Which proof holds.
    pub reason: Reason,
    /// Only packets that open a connection.
    pub openers_only: bool,
    /// The pod that is meant.
    pub meant: String,
    /// The pod that would be hit.
    pub hit: Option<String>,
    /// True if the breaker stops it: it awaits a second list, and is only reported.
    pub stopped: bool,
    /// Highest mode that annotations allow for it.
    pub bound: Mode,
}

/// What the history keeps of an IP: Services of one namespace, and of all, by the work that it is
/// to judge them there, and pods that show the IP. Any namespace can list any IP, however often.
const OF_NAMESPACE: usize = 512;
const OF_ALL: usize = 1_024;
const CLAIMANTS: usize = 64;

impl View {
    /// True if the view has no pod, no Service and no denial of the IP itself.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty() && self.terminated.is_none()
    }
}

/// True if nothing is denied, draining or finished at an IP.
pub fn is_quiet(state: &State, ip: Addr) -> bool {
    let tables = &state.layout.tables;
    let is_denied = tables.suspects.contains_key(&ip) || tables.terminated.contains_key(&ip);
    !is_denied && state.cluster.pods.claimants(ip).all(Record::is_live)
}

/// All facts about an IP.
pub fn view_ip(state: &State, ip: Addr) -> View {
    let services: Vec<&ObjectName> = state.cluster.endpoint_index.services_at(ip).collect();
    view_of_services(state, ip, &services, usize::MAX)
}

/// The facts about an IP that its history keeps, and how much work they were.
pub fn view_for_history(state: &State, ip: Addr) -> (View, usize) {
    let (services, work) = services_for_history(state, ip);
    let mut all_services = state.cluster.endpoint_index.services_at(ip);
    let mut claimants = state.cluster.pods.claimants(ip);
    let is_partial =
        all_services.nth(services.len()).is_some() || claimants.nth(CLAIMANTS).is_some();
    let view = View {
        partial: is_partial,
        ..view_of_services(state, ip, &services, CLAIMANTS)
    };
    (view, work)
}

/// The Services that list the IP, as many of each namespace as the history keeps, and how much work
/// they are.
fn services_for_history(state: &State, ip: Addr) -> (Vec<&ObjectName>, usize) {
    let index = &state.cluster.endpoint_index;
    let mut kept = Vec::new();
    let mut all = 1;
    let mut first = ObjectName::default();
    while all < OF_ALL
        && let Some(next) = index.services_from(ip, first).next()
    {
        let namespace = &next.namespace;
        let mut of_namespace = 0;
        let services = index.services_from(ip, ObjectName::first_of(namespace.clone()));
        for service in services.take_while(|service| service.namespace == *namespace) {
            let work = work_to_judge(&state.cluster, service, ip);
            if of_namespace + work > OF_NAMESPACE {
                break;
            }
            of_namespace += work;
            kept.push(service);
        }
        all += 1 + of_namespace;
        // No name of a namespace lies between.
        first = ObjectName::first_of(format!("{namespace}\0"));
    }
    (kept, all)
}

fn view_of_services(
    state: &State,
    ip: Addr,
    services: &[&ObjectName],
    most_claimants: usize,
) -> View {
    let cluster = &state.cluster;
    let terminated = state.layout.tables.terminated.get(&ip);
    View {
        synced: state.is_synced(),
        spared: cluster.spared(ip),
        pods: pods_at(state, ip, services, most_claimants),
        services: services
            .iter()
            .map(|name| service_view(state, name, ip))
            .collect(),
        terminated: terminated.map(|orphan_ip| pod_or_uid(state, orphan_ip.dead)),
        partial: false,
    }
}

/// The pods that show the IP, and those that the Services list there.
fn pods_at(
    state: &State,
    ip: Addr,
    services: &[&ObjectName],
    most_claimants: usize,
) -> Vec<PodView> {
    let cluster = &state.cluster;
    let mut pods: BTreeMap<Uid, PodView> = BTreeMap::new();
    for record in cluster.pods.claimants(ip).take(most_claimants) {
        pods.insert(record.pod.uid, pod_view(state, record, ip));
    }
    for name in services {
        for (_, targets) in cluster.endpoint_index.endpoints_at(name, ip) {
            for uid in targets.keys().flatten() {
                if let Some(record) = cluster.pods.get(uid) {
                    pods.insert(uid, pod_view(state, record, ip));
                }
            }
        }
    }
    let mut pods: Vec<PodView> = pods.into_values().collect();
    pods.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
    pods
}

fn pod_view(state: &State, record: &Record, ip: Addr) -> PodView {
    let claim = record.claims.get(&ip).filter(|claim| claim.published);
    PodView {
        name: pod_or_uid(state, record.pod.uid),
        uid: record.pod.uid.to_string(),
        node: record.pod.node.as_ref().map(ToString::to_string),
        uid_state: record.uid_state,
        exempt: state.cluster.exempt(record),
        deleting: record.pod.deleting,
        present: record.present,
        shows: record.claims_now(ip),
        order: claim.map(|claim| state.cluster.pods.order_of(claim)),
    }
}

fn service_view(state: &State, name: &ObjectName, ip: Addr) -> ServiceView {
    let why_not = not_proven_at(state, name, ip);
    let otherwise = if state.is_synced() {
        NotProven::NoVip
    } else {
        NotProven::NotSynced
    };
    let endpoints = state.cluster.endpoint_index.endpoints_at(name, ip);
    let endpoints = endpoints.map(|(endpoint, targets)| {
        let denied = state.denials.get(name, endpoint);
        let not_proven = match denied {
            Some(_) => None,
            None => Some(why_not.get(endpoint).unwrap_or(&otherwise).clone()),
        };
        EndpointView {
            port: endpoint.port,
            protocol: endpoint.protocol.as_str().to_owned(),
            targets: target_views(state, targets),
            denial: denied.map(|denied| denial_view(state, denied)),
            not_proven,
        }
    });
    ServiceView {
        name: name.to_string(),
        endpoints: endpoints.collect(),
    }
}

/// Why no denial is proven of the endpoints of a Service at an IP.
fn not_proven_at(state: &State, name: &ObjectName, ip: Addr) -> BTreeMap<Endpoint, NotProven> {
    let mut why_not = BTreeMap::new();
    let Some(service) = state.cluster.service(name) else {
        return why_not;
    };
    if !state.is_synced() {
        return why_not;
    }
    let naming = |uid| pod_or_uid(state, uid);
    for (endpoint, verdict) in judge_endpoints(&state.cluster, service, ip, &naming) {
        if let Err(not_proven) = verdict {
            why_not.insert(endpoint, not_proven);
        }
    }
    why_not
}

fn target_views(state: &State, targets: Targets<'_>) -> Vec<TargetView> {
    let views = targets.iter().map(|(target, listing)| TargetView {
        uid: target.map(|uid| uid.to_string()),
        pod: target.map(|uid| pod_or_uid(state, uid)),
        listed: listing.is_current(),
        ready: listing.ready > 0,
    });
    let mut views: Vec<TargetView> = views.collect();
    views.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
    views
}

fn denial_view(state: &State, denied: &Denied) -> DenialView {
    let proven = &denied.proven;
    let hit = if proven.owner_uid == Uid::NONE {
        None
    } else {
        Some(pod_or_uid(state, proven.owner_uid))
    };
    DenialView {
        reason: proven.reason,
        openers_only: proven.uid_state != UidState::Dead,
        meant: pod_or_uid(state, proven.dead_uid),
        hit,
        stopped: denied.stopped.is_some(),
        bound: proven.mode,
    }
}

fn pod_or_uid(state: &State, uid: Uid) -> String {
    match state.pod_name(uid) {
        Some(name) => name.to_string(),
        None => uid.to_string(),
    }
}

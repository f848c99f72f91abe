//! What the agent knows about one IP at a moment, with names: all that a verdict rests on.

use crate::facts::ObjectName;
use crate::state::State;
use crate::state::denials::Denied;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::Record;
use crate::state::not_proven::{Exemption, NotProven};
use crate::state::proof::judge;
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

impl State {
    /// True if nothing is denied, draining or finished at an IP.
    pub fn is_quiet(&self, ip: Addr) -> bool {
        let tables = &self.layout.tables;
        let suspect = tables.suspects.contains_key(&ip) || tables.terminated.contains_key(&ip);
        !suspect && self.cluster.pods.claimants(ip).all(Record::is_live)
    }

    /// All facts about an IP.
    pub fn view(&self, ip: Addr) -> View {
        let services: Vec<&ObjectName> = self.cluster.endpoint_index.services_at(ip).collect();
        self.view_of(ip, &services, usize::MAX)
    }

    /// The facts about an IP that its history keeps, and how much work they were.
    pub fn kept_view(&self, ip: Addr) -> (View, usize) {
        let (services, work) = self.kept_services(ip);
        let is_partial = self
            .cluster
            .endpoint_index
            .services_at(ip)
            .nth(services.len())
            .is_some()
            || self.cluster.pods.claimants(ip).nth(CLAIMANTS).is_some();
        (
            View {
                partial: is_partial,
                ..self.view_of(ip, &services, CLAIMANTS)
            },
            work,
        )
    }

    /// The Services that list the IP, as many of each namespace as the history keeps, and how much
    /// work they are.
    fn kept_services(&self, ip: Addr) -> (Vec<&ObjectName>, usize) {
        let index = &self.cluster.endpoint_index;
        let (mut kept, mut all, mut first) = (Vec::new(), 1, ObjectName::default());
        while all < OF_ALL
            && let Some(next) = index.services_from(ip, first).next()
        {
            let namespace = &next.namespace;
            let mut of_namespace = 0;
            let services = index.services_from(ip, ObjectName::first_of(namespace.clone()));
            for service in services.take_while(|service| service.namespace == *namespace) {
                let work = self.work_at(service, ip);
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

    fn view_of(&self, ip: Addr, services: &[&ObjectName], claimants: usize) -> View {
        let cluster = &self.cluster;
        let mut pods: BTreeMap<Uid, PodView> = BTreeMap::new();
        let meant = services
            .iter()
            .flat_map(|name| cluster.endpoint_index.at(name, ip));
        let meant = meant.flat_map(|(_, targets)| targets.keys().flatten());
        let meant = meant.filter_map(|uid| cluster.pods.get(uid));
        for record in cluster.pods.claimants(ip).take(claimants).chain(meant) {
            pods.insert(record.pod.uid, self.pod_view(record, ip));
        }
        let mut pods: Vec<PodView> = pods.into_values().collect();
        pods.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
        let terminated = self.layout.tables.terminated.get(&ip);
        View {
            synced: self.is_synced(),
            spared: cluster.spared(ip),
            pods,
            services: services
                .iter()
                .map(|name| self.service_view(name, ip))
                .collect(),
            terminated: terminated.map(|orphan_ip| self.pod_or_uid(orphan_ip.dead)),
            partial: false,
        }
    }

    fn pod_view(&self, record: &Record, ip: Addr) -> PodView {
        let claim = record.claims.get(&ip).filter(|claim| claim.published);
        PodView {
            name: self.pod_or_uid(record.pod.uid),
            uid: record.pod.uid.to_string(),
            node: record.pod.node.as_ref().map(ToString::to_string),
            uid_state: record.uid_state,
            exempt: self.cluster.exempt(record),
            deleting: record.pod.deleting,
            present: record.present,
            shows: record.claims_now(ip),
            order: claim.map(|claim| self.cluster.pods.order_of(claim)),
        }
    }

    fn service_view(&self, name: &ObjectName, ip: Addr) -> ServiceView {
        let cluster = &self.cluster;
        let service = cluster
            .service(name)
            .filter(|_| self.is_synced())
            .into_iter();
        let judged =
            service.flat_map(|known| judge(cluster, known, ip, &|uid| self.pod_or_uid(uid)));
        let why_not = judged.filter_map(|(endpoint, verdict)| Some((endpoint, verdict.err()?)));
        let why_not: BTreeMap<Endpoint, NotProven> = why_not.collect();
        let otherwise = if self.is_synced() {
            NotProven::NoVip
        } else {
            NotProven::NotSynced
        };
        let not_proven = |endpoint: &Endpoint| why_not.get(endpoint).unwrap_or(&otherwise).clone();
        let endpoints = cluster
            .endpoint_index
            .at(name, ip)
            .map(|(endpoint, targets)| {
                let mut targets: Vec<TargetView> = targets
                    .iter()
                    .map(|(target, listing)| TargetView {
                        uid: target.map(|uid| uid.to_string()),
                        pod: target.map(|uid| self.pod_or_uid(uid)),
                        listed: listing.is_current(),
                        ready: listing.ready > 0,
                    })
                    .collect();
                targets.sort_by(|a, b| (&a.pod, &a.uid).cmp(&(&b.pod, &b.uid)));
                let denied = self.denials.get(name, endpoint);
                EndpointView {
                    port: endpoint.port,
                    protocol: endpoint.protocol.as_str().to_owned(),
                    targets,
                    denial: denied.map(
                        |Denied {
                             proven, stopped, ..
                         }| DenialView {
                            reason: proven.reason,
                            openers_only: proven.uid_state != UidState::Dead,
                            meant: self.pod_or_uid(proven.dead_uid),
                            hit: Some(proven.owner_uid)
                                .filter(|uid| *uid != Uid::NONE)
                                .map(|uid| self.pod_or_uid(uid)),
                            stopped: stopped.is_some(),
                            bound: proven.mode,
                        },
                    ),
                    not_proven: denied.is_none().then(|| not_proven(endpoint)),
                }
            });
        ServiceView {
            name: name.to_string(),
            endpoints: endpoints.collect(),
        }
    }

    fn pod_or_uid(&self, uid: Uid) -> String {
        self.pod_name(uid)
            .map_or_else(|| uid.to_string(), ToString::to_string)
    }
}

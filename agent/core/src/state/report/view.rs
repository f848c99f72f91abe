//! The view of one IP, for the history: read only, it decides nothing.

use super::{DenialView, EndpointView, PodView, Report, ServiceView, TargetView, View};
use crate::facts::{Name, named};
use crate::state::denials::pending::Denied;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::Record;
use crate::state::not_proven::NotProven;
use crate::state::proof::judge::judge;
use epguard_common::{Addr, Uid, UidState};
use std::collections::BTreeMap;

impl Report<'_> {
    /// True if nothing is denied, draining or finished at an IP.
    #[must_use]
    pub fn is_quiet(self, ip: Addr) -> bool {
        let tables = &self.0.layout.tables;
        let suspect = tables.suspects.contains_key(&ip) || tables.terminated.contains_key(&ip);
        !suspect && self.0.cluster.pods.claimants(ip).all(Record::is_live)
    }

    /// All facts about an IP.
    #[must_use]
    pub fn view(self, ip: Addr) -> View {
        let cluster = &self.0.cluster;
        let services: Vec<ServiceView> =
            cluster.endpoint_index.services_at(ip).map(|name| self.service_view(name, ip)).collect();
        let mut pods: BTreeMap<Uid, PodView> = BTreeMap::new();
        let meant =
            cluster.endpoint_index.services_at(ip).flat_map(|name| cluster.endpoint_index.at(name, ip));
        let meant = meant.flat_map(|(_, targets)| targets.keys().flatten());
        let meant = meant.filter_map(|uid| cluster.pods.get(uid));
        for record in cluster.pods.claimants(ip).chain(meant) {
            pods.insert(record.pod.uid, self.pod_view(record, ip));
        }
        let mut pods: Vec<PodView> = pods.into_values().collect();
        pods.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
        let terminated = self.0.layout.tables.terminated.get(&ip);
        View {
            synced: self.0.is_synced(),
            spared: cluster.spared(ip).map(|spared| self.with_names(spared)),
            pods,
            services,
            terminated: terminated.map(|orphan_ip| self.pod_or_uid(orphan_ip.dead)),
        }
    }

    fn pod_view(self, record: &Record, ip: Addr) -> PodView {
        let claim = record.claims.get(&ip).filter(|claim| claim.published);
        PodView {
            name: self.pod_or_uid(record.pod.uid),
            uid: record.pod.uid.to_string(),
            node: record.pod.node.as_ref().map(ToString::to_string),
            uid_state: record.uid_state,
            exempt: self.0.cluster.exempt(&record.pod),
            deleting: record.pod.deleting,
            present: record.present,
            shows: record.claims_now(ip),
            order: claim.map(|claim| self.0.cluster.pods.order_of(claim)),
        }
    }

    fn service_view(self, name: &Name, ip: Addr) -> ServiceView {
        let cluster = &self.0.cluster;
        let why_not: BTreeMap<Endpoint, NotProven> =
            cluster.service(name).map_or_else(BTreeMap::new, |service| {
                let verdicts = judge(cluster, name, service, ip).into_iter();
                verdicts.filter_map(|(endpoint, verdict)| Some((endpoint, verdict.err()?))).collect()
            });
        let not_proven = |endpoint: &Endpoint| {
            let otherwise = if self.0.is_synced() { NotProven::NoVip } else { NotProven::NotSynced };
            let why = why_not.get(endpoint).filter(|_| self.0.is_synced()).cloned();
            self.with_names(why.unwrap_or(otherwise))
        };
        let endpoints = cluster.endpoint_index.at(name, ip).map(|(endpoint, targets)| {
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
            let denied = self.0.denials.get(name, endpoint);
            EndpointView {
                port: endpoint.port,
                protocol: endpoint.protocol.as_str().to_owned(),
                targets,
                denial: denied.map(|Denied { proven, pending, .. }| DenialView {
                    reason: proven.reason,
                    openers_only: proven.state != UidState::Dead,
                    meant: self.pod_or_uid(proven.meant),
                    hit: proven.owner.map(|owner| self.pod_or_uid(owner)),
                    held: pending.is_some(),
                    bound: proven.mode,
                }),
                not_proven: denied.is_none().then(|| not_proven(endpoint)),
            }
        });
        ServiceView { name: named(name), endpoints: endpoints.collect() }
    }

    fn with_names(self, why: NotProven) -> NotProven<String> {
        why.map(|uid| self.pod_or_uid(uid))
    }

    fn pod_or_uid(self, uid: Uid) -> String {
        self.0.pod_name(uid).map_or_else(|| uid.to_string(), named)
    }
}

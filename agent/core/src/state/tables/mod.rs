//! The desired contents of the maps.

mod alternatives;
mod changes;
mod claim_order;
mod generations;
mod layout;
mod numbers;
mod owners;
pub(in crate::state) mod restore;

pub use changes::Changes;
pub(in crate::state) use generations::Generations;
pub use numbers::Numbers;
pub(in crate::state) use owners::Owners;

use crate::facts::{Ips, Name};
use crate::state::confirmation::Breaker;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::Endpoint;
use crate::state::index::pods::Record;
use crate::state::index::quota::Quota;
use crate::state::orphan_ip::OrphanIp;
use crate::state::proof::{Denials, Proven};
use alternatives::Alternatives;
use claim_order::by_claim;
use epguard_common::{
    Action, Addr, Backends, Denial, DenialKey, Owner, ServiceNumber, Suspect, Uid, Vip, capacity,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// IPs of this node's endpoints that terminate, by pod; packets to them are only counted. The nodes of others count those.
pub type Draining = BTreeMap<Uid, Ips>;

/// Contents of the datapath's maps. They grow with staleness, never with the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// SUSPECTS.
    pub suspects: BTreeMap<Addr, Suspect>,
    /// SERVICES.
    pub services: BTreeMap<Vip, ServiceNumber>,
    /// DENIED.
    pub denied: BTreeMap<DenialKey, Denial>,
    /// BACKENDS.
    pub backends: BTreeMap<DenialKey, Backends>,
    /// TERMINATED.
    pub terminated: BTreeMap<Addr, OrphanIp>,
    /// Denials that found no room in a table, by the Service's namespace; those packets pass.
    pub refused: BTreeMap<String, usize>,
}

impl Tables {
    /// Builds the tables from the denials, and from the terminating endpoints, which are only counted.
    pub fn build(
        cluster: &ClusterIndex,
        denials: &Denials,
        breaker: &Breaker,
        numbers: &mut Numbers,
        draining: &Draining,
    ) -> Self {
        let mut tables = Self::default();
        let mut quotas = Quotas {
            meant: HashMap::new(),
            denied: Quota::of(capacity::DENIED),
            suspects: Quota::of(capacity::SUSPECTS),
            services: Quota::of(capacity::SERVICES),
            backends: Quota::of(capacity::BACKENDS),
            vips: HashMap::new(),
        };
        let mut alternatives = Alternatives::default();
        for (key, proof) in by_claim(denials, breaker) {
            let backends = || alternatives.of(cluster, denials, key.0, key.1);
            if !tables.add(cluster, key, (proof, backends), (numbers, &mut quotas)) {
                *tables.refused.entry(key.0.0.to_string()).or_default() += 1;
            }
        }
        let draining = draining.values().flatten();
        for ip in draining.filter(|ip| !cluster.is_infrastructure(**ip)) {
            if tables.suspects.len() < capacity::SUSPECTS || tables.suspects.contains_key(ip) {
                tables.suspects.entry(*ip).or_default().flags |= Suspect::DRAINING;
            }
        }
        tables
    }

    /// Adds all entries of one denial or none, so that a full table fails open.
    fn add<'a>(
        &mut self,
        cluster: &ClusterIndex,
        (name, endpoint): (&'a Name, &'a Endpoint),
        ((proven, held), backends): ((&Proven, bool), impl FnOnce() -> Backends),
        (numbers, quotas): (&mut Numbers, &mut Quotas<'a>),
    ) -> bool {
        let Some(service) = cluster.service(name) else {
            return false;
        };
        let vips = quotas.vips.entry(name).or_insert_with(|| {
            let vips = cluster.unambiguous_vips(service);
            vips.filter(|vip| !self.services.contains_key(vip)).collect()
        });
        let namespace = name.0.as_str();
        let suspects = usize::from(!self.suspects.contains_key(&endpoint.ip));
        let fits = quotas.denied.admits(namespace, 1)
            && quotas.suspects.admits(namespace, suspects)
            && quotas.services.admits(namespace, vips.len());
        if !fits {
            return false;
        }
        let Some(number) = numbers.take(name) else {
            return false;
        };
        quotas.denied.take(namespace, 1);
        quotas.suspects.take(namespace, suspects);
        quotas.services.take(namespace, vips.len());
        self.services.extend(vips.drain(..).map(|vip| (vip, number)));
        let suspect = self.suspects.entry(endpoint.ip).or_default();
        suspect.flags |= Suspect::DENIED;
        let claim = (!held, name, *endpoint);
        let meant = quotas.meant.entry(endpoint.ip).or_insert(claim);
        if claim >= *meant {
            *meant = claim;
            suspect.dead_uid = proven.meant;
        }
        let target = key(endpoint, number);
        let action = match service.on_denial.action {
            Action::Redirect
                if quotas.backends.admits(namespace, 1) && self.redirect(target, &backends()) =>
            {
                quotas.backends.take(namespace, 1);
                Action::Redirect
            }
            Action::Redirect => Action::Reject,
            asked => asked,
        };
        self.denied.insert(target, denial(proven, held, action));
        true
    }

    /// Stores the endpoints that flows to a denied one are redirected to. False if there are none.
    fn redirect(&mut self, target: DenialKey, backends: &Backends) -> bool {
        let somewhere = backends.count > 0;
        if somewhere {
            self.backends.insert(target, *backends);
        }
        somewhere
    }
}

/// The key of a denial of the Service with this number.
pub(in crate::state) fn key(endpoint: &Endpoint, service: ServiceNumber) -> DenialKey {
    DenialKey::new(endpoint.ip, service, endpoint.port, endpoint.protocol.number())
}

/// How much of each table the namespaces hold, and which VIPs are still to be added.
struct Quotas<'a> {
    /// The denial that SUSPECTS shows for each IP: one that is carried out before pending ones, then the last.
    meant: HashMap<Addr, (bool, &'a Name, Endpoint)>,
    denied: Quota<&'a str>,
    suspects: Quota<&'a str>,
    services: Quota<&'a str>,
    backends: Quota<&'a str>,
    /// VIPs that are not in SERVICES yet.
    vips: HashMap<&'a Name, Vec<Vip>>,
}

pub(in crate::state) fn denial(proven: &Proven, held: bool, action: Action) -> Denial {
    Denial {
        dead_uid: proven.meant,
        owner_uid: proven.owner.unwrap_or_default(),
        boot_id: proven.boot_id,
        reason: proven.reason,
        uid_state: proven.state,
        mode: proven.mode,
        held: held.into(),
        action,
    }
}

/// The pod that an IP belongs to according to the API, for OWNERS. With several live claimants the last one, flagged,
/// unless all others are terminating or show it on another network, which may overlap. The caller counts the
/// generation.
#[must_use]
pub fn owner(cluster: &ClusterIndex, ip: Addr) -> Option<Owner> {
    if cluster.is_infrastructure(ip) {
        return None;
    }
    // An address of a Service that a pod shows in an annotation alone is the Service's.
    let is_shown = |record: &Record| record.pod.ips.contains(&ip) || !cluster.is_no_pods(ip);
    let holds = |record: &&Record| cluster.may_hold(record, ip) && is_shown(record);
    let live = || cluster.pods.live_claimants(ip).filter(holds);
    let published = |record: &Record| record.pod.ips.contains(&ip);
    let last = live().max_by_key(|record| {
        (
            published(record),
            !record.pod.deleting,
            record.claims.get(&ip).map(|claim| cluster.pods.order_of(claim)),
        )
    })?;
    let staying = live()
        .filter(|record| !record.pod.deleting && published(record))
        .count();
    let mut flags = 0;
    if last.pod.deleting {
        flags |= Owner::DRAINING;
    }
    if staying > 1 {
        flags |= Owner::CONFLICT;
    }
    let since = last
        .claims
        .get(&ip)
        .map(|claim| claim.since)
        .unwrap_or_default()
        .into();
    Some(Owner {
        uid: last.pod.uid,
        generation: 0,
        since_ns: nanoseconds(since),
        flags,
        reserved: 0,
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! Live endpoints of the same Service and port, to which connections to a denied endpoint may be
//! redirected.

use crate::facts::{ANY_PORT, ObjectName, OnDenial, Protocol, Service};
use crate::state::denials::Denials;
use crate::state::index::ClusterIndex;
use crate::state::index::endpoints::{Endpoint, Listing, Port, Targets};
use crate::state::index::pods::Record;
use epguard_common::{Backend, Backends, MAX_BACKENDS};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Endpoints of a Service among which live ones are looked for.
const MOST: usize = 8_192;

/// Distance of an endpoint; only the nearest endpoints are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    SameNode,
    SameZone,
    Elsewhere,
}

/// What interchangeable endpoints have in common: port, protocol, and whether the IP is of IPv4.
type Group = (Port, Protocol, bool);

/// The live endpoints of a Service. Only live pods of its namespace that alone show their IP are
/// taken, and of these the nearest. Each node begins with another one.
#[derive(Debug)]
pub struct Alternatives {
    nearest: HashMap<Group, Backends>,
    /// Which of the Service's ports each number stands for by its slices of now.
    ports: HashMap<(u16, Protocol), Port>,
    /// The same ports.
    named: HashSet<Port>,
}

impl Alternatives {
    /// All live endpoints of a Service that are not denied themselves.
    pub fn find(cluster: &ClusterIndex, denials: &Denials, service: &Service) -> Self {
        let mut live: HashMap<Group, Vec<(Distance, Backend)>> = HashMap::new();
        let mut ports: HashMap<(u16, Protocol), Port> = HashMap::new();
        let denied: BTreeSet<&Endpoint> = denials
            .of_service(&service.name)
            .map(|(endpoint, _)| endpoint)
            .collect();
        for (endpoint, targets) in cluster
            .endpoint_index
            .endpoints_of(&service.name)
            .take(MOST)
        {
            if endpoint.port == ANY_PORT {
                continue;
            }
            let current = || targets.values().filter(|listing| listing.is_current());
            for listing in current() {
                let known = ports.entry((endpoint.port, endpoint.protocol)).or_default();
                known.merge(listing.port);
            }
            let is_ready = targets.values().any(|listing| listing.ready > 0);
            if let Some(port) = port(current()).filter(|_| is_ready && !denied.contains(endpoint))
                && let Some(record) = holder(cluster, service, endpoint, targets)
                && let distance = distance(cluster, record)
                && (distance == Distance::SameNode || !service.on_denial.local_only)
            {
                let backend = Backend {
                    addr: endpoint.ip,
                    uid: record.pod.uid,
                    port: endpoint.port,
                    reserved: 0,
                };
                let group = (port, endpoint.protocol, endpoint.ip.is_v4());
                live.entry(group).or_default().push((distance, backend));
            }
        }
        let nearest = |(group, live)| (group, nearest(cluster, service.on_denial, live));
        ports.retain(|_, port| matches!(port, Port::Named(_)));
        Self {
            nearest: live.into_iter().map(nearest).collect(),
            named: ports.values().copied().collect(),
            ports,
        }
    }

    /// The live endpoints for flows to `denied`, if there are any.
    pub fn to(&self, cluster: &ClusterIndex, name: &ObjectName, denied: &Endpoint) -> Backends {
        let Some(targets) = cluster.endpoint_index.targets(name, denied) else {
            return Backends::default();
        };
        // A Service that is made again may call its ports otherwise: then the number tells which
        // one is meant.
        let is_known = |port: &Port| self.named.contains(port);
        let by_number = || self.ports.get(&(denied.port, denied.protocol)).copied();
        let Some(port) = port(targets.values()).filter(is_known).or_else(by_number) else {
            return Backends::default();
        };
        let group = (port, denied.protocol, denied.ip.is_v4());
        self.nearest.get(&group).copied().unwrap_or_default()
    }
}

fn nearest(
    cluster: &ClusterIndex,
    on_denial: OnDenial,
    mut live: Vec<(Distance, Backend)>,
) -> Backends {
    live.sort_unstable();
    let nearest = live.first().map(|(distance, _)| *distance);
    live.retain(|(distance, _)| Some(*distance) == nearest);
    if live.len() > MAX_BACKENDS {
        let first = cluster
            .settings
            .node
            .bytes()
            .map(usize::from)
            .sum::<usize>()
            % live.len();
        live.rotate_left(first);
    }
    Backends::new(
        on_denial.sticky,
        live.into_iter().map(|(_, backend)| backend),
    )
}

/// The port of the Service that all listings of a socket name; none if they differ or name none.
fn port<'a>(mut endpoint_index: impl Iterator<Item = &'a Listing>) -> Option<Port> {
    let port = endpoint_index.next()?.port;
    (matches!(port, Port::Named(_)) && endpoint_index.all(|other| other.port == port))
        .then_some(port)
}

/// The one pod that is listed at the socket, if it is of the Service's namespace, lives, is not
/// terminating, and alone shows the IP. A slice can name a pod of another namespace.
fn holder<'a>(
    cluster: &'a ClusterIndex,
    service: &Service,
    endpoint: &Endpoint,
    targets: Targets<'_>,
) -> Option<&'a Record> {
    let mut current = targets.iter().filter(|(_, listing)| listing.is_current());
    let (target, _) = current.next()?;
    let record = cluster.pods.get(target?)?;
    let own = record.pod.name.namespace == service.name.namespace;
    // What a pod of another namespace shows in an annotation alone ends no redirect.
    let counts = |record: &&Record| {
        record.pod.ips.contains(&endpoint.ip) || record.pod.name.namespace == service.name.namespace
    };
    let mut claimants = cluster.pods.live_claimants(endpoint.ip).filter(counts);
    let alone = claimants
        .next()
        .is_some_and(|claimant| claimant.pod.uid == record.pod.uid);
    let is_it = own && current.next().is_none() && alone && claimants.next().is_none();
    (is_it && !record.pod.deleting && !cluster.is_infrastructure(endpoint.ip)).then_some(record)
}

fn distance(cluster: &ClusterIndex, record: &Record) -> Distance {
    let zone = |node: &str| {
        cluster
            .nodes
            .get(node)
            .and_then(|node| node.zone.as_deref())
    };
    match record.pod.node.as_deref() {
        Some(node) if node == cluster.settings.node => Distance::SameNode,
        Some(node) if zone(node).is_some() && zone(node) == zone(&cluster.settings.node) => {
            Distance::SameZone
        }
        _ => Distance::Elsewhere,
    }
}

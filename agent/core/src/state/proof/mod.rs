//! The proof that packets of a Service to an IP must not arrive there any more.
//!
//! A flow is judged by the pod that was meant, never an IP by API state alone. Any gap in the proof
//! (an unknown UID, an entry without one, a possible holder) is a pass.

mod own_pods;

pub use own_pods::OwnPods;

use crate::facts::{ANY_PORT, ObjectName, Service};
use crate::state::index::cluster_index::ClusterIndex;
use crate::state::index::endpoints::{Endpoint, Listing, Target, Targets};
use crate::state::index::pods::Record;
use crate::state::index::ranges::GivenBy;
use crate::state::not_proven::{NotProven, NotStale};
use epguard_common::{Addr, Denial, Mode, Reason, Uid, UidState};

/// Looking at so many pods that may hold an IP without showing it takes about as long as judging an
/// endpoint.
const UNSHOWN: usize = 16;

/// How a pod is called in the reason why no denial is proven.
pub type Naming<'a> = &'a dyn Fn(Uid) -> String;

/// The denial that is proven for each endpoint of a Service at an IP, or why none is.
pub fn judge_endpoints(
    cluster: &ClusterIndex,
    service: &Service,
    ip: Addr,
    naming: Naming<'_>,
) -> Vec<(Endpoint, Verdict)> {
    let endpoints = cluster.endpoint_index.endpoints_at(&service.name, ip);
    // What is listed on any port is evidence about all ports. No packet has that number.
    let endpoints = endpoints.filter(|(endpoint, _)| endpoint.port != ANY_PORT);
    match ServiceAtIp::new(cluster, service, ip, naming) {
        Ok(case) => endpoints
            .map(|(endpoint, targets)| (*endpoint, case.prove(targets)))
            .collect(),
        Err(why) => endpoints
            .map(|(endpoint, _)| (*endpoint, Err(why.clone())))
            .collect(),
    }
}

/// How much work it is to judge a Service at an IP, in endpoints.
pub fn work_to_judge(cluster: &ClusterIndex, name: &ObjectName, ip: Addr) -> usize {
    let unshown = match cluster.service(name) {
        Some(service) => OwnPods::new(cluster, service)
            .count_unshown(ip)
            .unwrap_or(0),
        None => 0,
    };
    1 + cluster.endpoint_index.count_at(name, ip) + unshown / UNSHOWN
}

/// A proven denial of one endpoint, with the action that its Service asks for; or the first step of
/// the proof that fails.
pub type Verdict = Result<Denial, NotProven>;

/// The first target that slices of the Service list at the IP, on any port, and that may be in
/// service.
fn survivor(
    cluster: &ClusterIndex,
    service: &Service,
    ip: Addr,
    naming: Naming<'_>,
) -> Option<NotProven> {
    for (_, targets) in cluster.endpoint_index.endpoints_at(&service.name, ip) {
        for (target, listing) in targets.iter() {
            if !listing.is_current() {
                continue;
            }
            if let Err(why) = stale(cluster, target, naming) {
                return Some(NotProven::Target { why, listed: true });
            }
        }
    }
    None
}

/// The pod behind a target, if it is proven retired or dead.
fn stale<'a>(
    cluster: &'a ClusterIndex,
    target: Target,
    naming: Naming<'_>,
) -> Result<&'a Record, NotStale> {
    let uid = target.ok_or(NotStale::NoPod)?;
    let record = cluster
        .pods
        .get(uid)
        .ok_or_else(|| NotStale::Unknown(naming(uid)))?;
    match (record.uid_state, cluster.exempt(record)) {
        (UidState::Live, _) if record.pod.deleting => Err(NotStale::Terminating(naming(uid))),
        (UidState::Live, _) => Err(NotStale::Live(naming(uid))),
        (_, Some(why)) => Err(NotStale::Exempt(naming(uid), why)),
        (_, None) => Ok(record),
    }
}

/// Why one of a Service's own pods may hold the IP without showing it; none if none may.
fn possible_holder(
    cluster: &ClusterIndex,
    own: OwnPods<'_>,
    ip: Addr,
    naming: Naming<'_>,
) -> Option<NotProven> {
    if own.count_unshown(ip).is_none() {
        return Some(NotProven::TooLarge);
    }
    let mut holders = own.unshown_holders(ip).peekable();
    holders.peek()?;
    let node = cluster.only_node_that_hands_out(ip, own.meant_at(ip));
    holders.find_map(|holder| {
        let name = || naming(holder.pod.uid);
        match cluster.can_have_been_given(holder, ip, node) {
            GivenBy::None => None,
            GivenBy::ItsNodeUnlessKnown(node) => {
                Some(NotProven::NodeNotSeen(name(), node.to_string()))
            }
            GivenBy::ItsNode | GivenBy::Any => {
                Some(NotProven::PossibleHolder(name(), holder.shown_instead()))
            }
        }
    })
}

/// True if the denial stays in force while pods of the Service start. A stranger shows the IP, and
/// two pods never hold one IP at the same time; and the selector proves which pods are the
/// Service's, so that none of these is overlooked.
pub fn stands_while_pods_start(
    cluster: &ClusterIndex,
    service: &ObjectName,
    ip: Addr,
    proven: &Denial,
) -> bool {
    let is_selective = cluster
        .service(service)
        .is_some_and(|service| !cluster.proves_nothing(service));
    is_selective && is_held_by_a_stranger(cluster.pods.get(proven.owner_uid), ip)
}

/// True if a live pod that is not the Service's own shows the IP as that of its sandbox: two pods
/// hold no IP at one time. Should the IP have been handed on since, the endpoints controller lists
/// the next pod nowhere before that shows it.
fn is_held_by_a_stranger(owner: Option<&Record>, ip: Addr) -> bool {
    owner.is_some_and(|owner| owner.settled && owner.pod.ips.contains(&ip))
}

/// A Service at an IP where nothing forbids denials on all ports at once.
struct ServiceAtIp<'a> {
    cluster: &'a ClusterIndex,
    service: &'a Service,
    /// The Service's own pods that show the IP, dead ones included.
    own: Vec<&'a Record>,
    /// Why one of its own may hold the IP without showing it.
    possible_holder: Option<NotProven>,
    ip: Addr,
    owner: Option<&'a Record>,
    /// The annotation mode of the Service and the owner.
    bound: Mode,
    naming: Naming<'a>,
}

impl<'a> ServiceAtIp<'a> {
    fn new(
        cluster: &'a ClusterIndex,
        service: &'a Service,
        ip: Addr,
        naming: Naming<'a>,
    ) -> Result<Self, NotProven> {
        if let Some(spared) = cluster.spared(ip) {
            return Err(spared);
        }
        if !service.has_vip() {
            return Err(NotProven::NoVip);
        }
        if service.partial || cluster.endpoint_index.leaves_out(&service.name) {
            return Err(NotProven::TooLarge);
        }
        let own = OwnPods::new(cluster, service);
        let certain = |record: &&Record| record.pod.ips.contains(&ip) || own.contains(&record.pod);
        let mut certain = cluster.pods.live_claimants(ip).filter(certain);
        let owner = certain.next();
        if let (Some(one), Some(other)) = (owner, certain.next()) {
            return Err(NotProven::SeveralOwners(
                naming(one.pod.uid),
                naming(other.pod.uid),
            ));
        }
        let bound = cluster.bound_of_service(service);
        if bound == Mode::Off {
            return Err(NotProven::ServiceOptedOut);
        }
        let bound = owner.map_or(bound, |owner| bound.lower(cluster.bound_of_pod(&owner.pod)));
        if let (Some(owner), Mode::Off) = (owner, bound) {
            return Err(NotProven::OwnerOptedOut(naming(owner.pod.uid)));
        }
        if let Some(survivor) = survivor(cluster, service, ip, naming) {
            return Err(survivor);
        }
        let possible_holder =
            if is_held_by_a_stranger(owner, ip) && !cluster.proves_nothing(service) {
                None
            } else {
                possible_holder(cluster, own, ip, naming)
            };
        let claimants = cluster.pods.claimants(ip);
        Ok(ServiceAtIp {
            cluster,
            service,
            own: claimants
                .filter(|record| own.contains(&record.pod))
                .collect(),
            possible_holder,
            ip,
            owner,
            bound,
            naming,
        })
    }

    fn prove(&self, targets: Targets<'_>) -> Verdict {
        let listed = targets.values().any(Listing::is_current);
        if self.service.selector.is_none() && !listed {
            return Err(NotProven::NotListed);
        }
        let mut pods = Vec::new();
        for (target, listing) in targets.iter() {
            let listed = listing.is_current();
            let pod = stale(self.cluster, target, self.naming)
                .map_err(|why| NotProven::Target { why, listed })?;
            pods.push((pod, listing));
        }
        // Of those that slices list, the last one; else the one that left last.
        let meant = pods.iter().max_by_key(|(_, listing)| {
            let left = if listing.is_current() {
                None
            } else {
                Some(listing.last)
            };
            (listing.is_current(), left)
        });
        let (meant, _) = meant.ok_or(NotProven::NotListed)?;
        let current = pods.iter().filter(|(_, listing)| listing.is_current());
        let listed: Vec<&Record> = current.map(|(record, _)| *record).chain([*meant]).collect();
        let mut own = self.own.iter();
        if let Some(own) = own.find(|record| record.uid_state == UidState::Live) {
            return Err(NotProven::OwnPod((self.naming)(own.pod.uid)));
        }
        if let Some(holder) = &self.possible_holder {
            return Err(holder.clone());
        }
        let mut gone = pods.iter().map(|(record, _)| record).chain(&self.own);
        let is_dead = gone.all(|record| record.uid_state == UidState::Dead);
        let mut mode = self.bound;
        for (record, _) in &pods {
            mode = mode.lower(self.cluster.bound_of_pod(&record.pod));
            let claim = record.claims.get(&self.ip);
            if !claim.is_some_and(|claim| claim.published) {
                // On a network that its status does not show, others may hold the IP unseen, too.
                mode = mode.lower(Mode::Observe);
            }
        }
        Ok(Denial {
            reason: self.reason(is_dead, &listed)?,
            uid_state: if is_dead {
                UidState::Dead
            } else {
                UidState::Retired
            },
            mode,
            dead_uid: meant.pod.uid,
            owner_uid: self
                .owner
                .or_else(|| self.attached())
                .map(|owner| owner.pod.uid)
                .unwrap_or_default(),
            boot_id: self.cluster.boot_id(meant.pod.node.as_deref()),
            stopped: 0,
            action: self.service.on_denial.action,
        })
    }

    fn reason(&self, is_dead: bool, listed: &[&Record]) -> Result<Reason, NotProven> {
        let Some(owner) = self.owner else {
            return Ok(if !is_dead {
                Reason::RetiredBackend
            } else if self.attached().is_some() {
                Reason::Reused
            } else {
                Reason::DeadBackend
            });
        };
        if is_dead || listed.iter().all(|meant| self.claimed_after(owner, meant)) {
            Ok(Reason::Reused)
        } else {
            Err(NotProven::NotLater((self.naming)(owner.pod.uid)))
        }
    }

    /// A pod that shows the IP in an annotation alone. It neither ends a denial nor bounds it:
    /// whichever pod holds the IP, this packet is not for it.
    fn attached(&self) -> Option<&Record> {
        let live = self.cluster.pods.live_claimants(self.ip);
        live.min_by_key(|record| record.pod.uid)
    }

    /// True if the owner's claim was seen to come after the retired pod's. Without that, the
    /// retired pod may still run and own the IP. For a dead pod the order does not matter: its
    /// claims are void. Claims on other networks than the pods' show no order: such networks may
    /// overlap.
    fn claimed_after(&self, owner: &Record, meant: &Record) -> bool {
        let pods = &self.cluster.pods;
        match (owner.claims.get(&self.ip), meant.claims.get(&self.ip)) {
            (Some(later), Some(earlier)) => {
                later.published
                    && earlier.published
                    && pods.order_of(later) > pods.order_of(earlier)
            }
            _ => false,
        }
    }
}

//! From facts to the desired contents of the maps. Pure and synchronous: no client, no clock, no await.
//!
//! ```text
//! fact -> ClusterIndex (pods, endpoints, Services, nodes) -> dirty (Service, IP) pairs
//!      -> judge -> denials -> breaker -> Tables
//! ```

mod alternatives;
mod backends;
mod bound;
mod breaker;
mod claim_order;
mod cluster_index;
mod confirmation;
mod crowded;
mod dirty;
mod endpoint;
mod endpoint_index;
mod forgetting;
mod generations;
mod ipam;
mod judge;
mod left_out;
mod named_targets;
mod names;
mod namespaces;
mod node_ranges;
mod not_proven;
mod opinions;
mod orphan_ip;
mod pending;
mod plausible;
mod pod_counts;
mod pod_index;
mod quota;
mod ranges;
mod readiness;
mod record;
mod redirected;
mod restore;
mod reuse;
mod review;
mod revival;
mod settings;
mod settle;
mod slice_part;
mod slots;
mod snapshot;
mod synced;
mod tables;
mod target_names;
mod unproven;
mod view;
mod vips;

pub use breaker::{Breaker, Trip};
pub use cluster_index::ClusterIndex;
pub use endpoint::{Endpoint, Listing, Port, RECENTLY, Target};
pub use endpoint_index::{EndpointIndex, MAX_REMEMBERED, MEMORY};
pub use judge::{Denials, Proven};
pub use not_proven::{Exemption, NotProven, NotStale};
pub use opinions::{DELAY, Opinion, SPREAD, spread};
pub use orphan_ip::OrphanIp;
use orphan_ip::OrphanIps;
pub use pending::Why;
pub use pod_counts::{IpState, PodCounts, PodState};
pub use pod_index::PodIndex;
pub use ranges::Ranges;
pub use record::{Claim, Record};
use reuse::Reuse;
pub use review::{Case, Evidence, Finding, OPEN, Packets, Review};
use revival::Revivals;
pub use settings::{Ipam, Settings};
pub use slots::{GRACE, Slots};
pub use snapshot::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
use synced::Synced;
pub use tables::{Draining, Tables};
pub use unproven::{PossibleHolder, Unproven};

use crate::facts::{Fact, Name, Watched};
use dirty::Dirty;
use epguard_common::{Addr, Owner, Slot, Uid};
use generations::Generations;
use opinions::{Came, Opinions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state machine. `now` is any clock that only goes forward.
#[derive(Debug, Clone)]
pub struct State {
    cluster: ClusterIndex,
    synced: Synced,
    denials: Denials,
    breaker: Breaker,
    review: Review,
    draining: Draining,
    orphan_ips: OrphanIps,
    /// Tables of an earlier process, until everything has been listed once.
    restored: Option<Tables>,
    slots: Slots,
    /// Slots of redirected flows that go on.
    redirected: BTreeSet<Slot>,
    tables: Tables,
    owners: BTreeMap<Addr, Owner>,
    changed_owners: BTreeSet<Addr>,
    generations: Generations,
    /// IPs whose history may have changed.
    touched: BTreeSet<Addr>,
    reuse: Reuse,
    revivals: Revivals,
    opinions: Opinions,
    /// Names of pods that an earlier process knew.
    known_names: BTreeMap<Uid, Name>,
}

impl State {
    /// An empty state that denies nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_slots(settings, Slots::default())
    }

    /// An empty state with the given slots.
    #[must_use]
    pub fn with_slots(settings: Settings, slots: Slots) -> Self {
        Self {
            cluster: ClusterIndex::new(settings),
            synced: Synced::default(),
            denials: Denials::new(),
            breaker: Breaker::default(),
            review: Review::default(),
            draining: Draining::new(),
            orphan_ips: OrphanIps::default(),
            restored: None,
            slots,
            redirected: BTreeSet::new(),
            tables: Tables::default(),
            owners: BTreeMap::new(),
            changed_owners: BTreeSet::new(),
            generations: Generations::default(),
            touched: BTreeSet::new(),
            reuse: Reuse::default(),
            revivals: Revivals::default(),
            opinions: Opinions::default(),
            known_names: BTreeMap::new(),
        }
    }

    /// Stores what an earlier process proved; it is restored once everything has been listed.
    pub fn restore(&mut self, tables: Tables) {
        self.restored = Some(tables);
    }

    /// Applies a fact; afterwards [`State::tables`] is what the maps should hold.
    pub fn apply(&mut self, now: Duration, mut fact: Fact) {
        self.start_over_if_revived(now, &mut fact);
        let was_synced = self.is_synced();
        let mut list = Came::of(&fact).filter(|list| list.kind.bears_proofs());
        self.synced.note(&fact);
        let mut dirty = match fact {
            Fact::Presence(presence) => {
                self.apply_presence(now, &presence);
                self.orphan_ips.note(presence);
                Dirty::default()
            }
            fact => dirty::absorb(&mut self.cluster, now, fact),
        };
        self.review_again(&dirty);
        if was_synced != self.is_synced() {
            dirty.everything = true;
            // Whichever list came last: the first lists count as one.
            list = Some(Came::whole(Watched::EndpointSlices));
            if let Some(tables) = self.restored.take() {
                self.apply_restored(&tables, now);
            }
            dirty.pods.extend(self.restore_deaths(now));
        }
        let displaced = self.orphan_ips.record_dead(&self.cluster, now, &dirty.pods);
        dirty.pods.extend(displaced);
        self.settle(now, dirty, list.as_ref());
    }

    /// Applies the passing of time: drops old endpoints, frees slots. Once a second is enough.
    pub fn tick(&mut self, now: Duration) {
        self.slots.expire(now);
        self.review.tick(now);
        let mut forgotten: Dirty = self.cluster.endpoint_index.expire(now).into();
        forgotten.pods.extend(self.orphan_ips.expire(&self.cluster, now));
        forgotten.everything = self.cluster.forget_strays(now);
        let orphan_ips = &self.orphan_ips;
        self.generations.expire(now, |ip| orphan_ips.mentions(ip));
        self.settle(now, forgotten, None);
    }

    /// Notes a packet to a denied endpoint.
    pub fn hit(&mut self, now: Duration, slot: Slot, endpoint: &Endpoint) {
        if let Some(service) = self.slots.service(slot).cloned() {
            self.cluster.endpoint_index.hit(now, &service, endpoint);
        } else {
            self.orphan_ips.hit(now, endpoint.ip);
        }
    }

    /// True if every watch has shown everything once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// True if the state needs the IPs that the node's routes and neighbours lead to: a dead pod had one of them, or
    /// may be found to once everything has been listed.
    #[must_use]
    pub fn asks_for_presence(&self) -> bool {
        !self.is_synced() || !self.orphan_ips.is_empty()
    }

    /// Whether this node is labelled as a canary.
    #[must_use]
    pub fn is_canary(&self) -> bool {
        let own = self.cluster.node(&self.cluster.settings.node);
        own.is_some_and(|node| node.canary)
    }

    /// Name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.cluster.settings.node
    }

    /// The ranges in which endpoints may be denied.
    #[must_use]
    pub fn ranges(&self) -> &Ranges {
        &self.cluster.settings.ranges
    }

    /// What SUSPECTS, SERVICES and DENIED should hold.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What OWNERS should hold, and which of its keys changed since the last call.
    pub fn take_owners(&mut self) -> (&BTreeMap<Addr, Owner>, BTreeSet<Addr>) {
        (&self.owners, std::mem::take(&mut self.changed_owners))
    }

    /// How long IPs had no owner, for those that got another one since the last call.
    pub fn take_reuse_gaps(&mut self) -> Vec<Duration> {
        self.reuse.take()
    }

    /// The pods that own an IP.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.owners.values().map(|owner| owner.uid)
    }

    /// All denials with their evidence.
    pub fn denials(&self) -> impl Iterator<Item = (&Name, &Endpoint, &Proven)> {
        self.denials
            .iter()
            .map(|((service, endpoint), proven)| (service, endpoint, proven))
    }

    /// Affected Services by slot number.
    pub fn affected_services(&self) -> impl Iterator<Item = (u16, &Name)> {
        self.slots.iter()
    }

    /// Services whose slot does not fit beside a neighbour that uses the low five bits.
    #[must_use]
    pub fn services_without_high_slot(&self) -> usize {
        self.slots.without_room_beside_low_bits()
    }

    /// The live pods that publish an IP as their pod IP; other networks may overlap.
    pub fn live_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        let claimants = self.cluster.pods.claimants(ip);
        claimants.filter(move |record| record.is_live() && record.pod.ips.contains(&ip))
    }

    /// The same facts with every verdict judged again, at the cost of the whole cluster. It differs from the result of
    /// the single facts only if one of them touched more than its dirty set lists.
    #[must_use]
    pub fn judged_afresh(&self, now: Duration) -> Self {
        let mut fresh = self.clone();
        fresh.denials.clear();
        fresh.draining.clear();
        fresh.owners.clear();
        let everything = Dirty {
            everything: true,
            ..Dirty::default()
        };
        fresh.settle(now, everything, None);
        fresh
    }
}

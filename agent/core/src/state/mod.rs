//! From facts to what the maps should hold. Pure and synchronous: no client, no clock, no await.
//!
//! ```text
//! fact -> World (pods, listings, Services, nodes) -> dirty (Service, IP) pairs -> judge -> denials -> breaker -> Tables
//! ```

mod alternatives;
mod audit;
mod backends;
mod bound;
mod breaker;
mod census;
mod claim_order;
mod crowded;
mod dirty;
mod forgetting;
mod generations;
mod hold;
mod inherit;
mod ipam;
mod judge;
mod left_out;
mod listings;
mod named_targets;
mod names;
mod namespaces;
mod node_ranges;
mod not_proven;
mod plausible;
mod pods;
mod quota;
mod ranges;
mod readiness;
mod record;
mod reuse;
mod revival;
mod settings;
mod settle;
mod slots;
mod snapshot;
mod socket;
mod steering;
mod synced;
mod tables;
mod target_names;
mod trust;
mod unproven;
mod vacant;
mod view;
mod vips;
mod world;

pub use audit::{Audit, Case, Evidence, Finding, OPEN, Packets};
pub use breaker::{Breaker, DELAY, Trip};
pub use census::Census;
pub use hold::Why;
pub use judge::{Denials, Proven};
pub use listings::{Listings, MAX_REMEMBERED, MEMORY};
pub use not_proven::{Exemption, NotProven, NotStale};
pub use pods::Pods;
pub use ranges::Ranges;
pub use record::{Claim, Life, Record};
use reuse::Reuse;
use revival::Revivals;
pub use settings::{Ipam, Settings};
pub use slots::{GRACE, Slots};
pub use snapshot::{DenialView, EndpointView, PodView, ServiceView, TargetView, View};
pub use socket::{Listing, Port, RECENTLY, Socket, Target};
use synced::Synced;
pub use tables::{Draining, Tables};
pub use unproven::{PossibleHolder, Unproven};
use vacant::Vacancies;
pub use vacant::Vacant;
pub use world::World;

use crate::facts::{Fact, Name, Watched};
use dirty::Dirty;
use epguard_common::{Addr, Owner, Slot, Uid};
use generations::Generations;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state machine. `now` is any clock that only goes forward.
#[derive(Debug, Clone)]
pub struct State {
    world: World,
    synced: Synced,
    denials: Denials,
    breaker: Breaker,
    audit: Audit,
    draining: Draining,
    vacancies: Vacancies,
    /// Until everything has been listed once.
    inherited: Option<Tables>,
    slots: Slots,
    /// Slots of flows that were steered and go on.
    steered: BTreeSet<Slot>,
    tables: Tables,
    owners: BTreeMap<Addr, Owner>,
    changed_owners: BTreeSet<Addr>,
    generations: Generations,
    /// IPs for the history to look at.
    touched: BTreeSet<Addr>,
    reuse: Reuse,
    revivals: Revivals,
    /// Names of pods that an earlier process knew.
    known_names: BTreeMap<Uid, Name>,
}

impl State {
    /// An empty state that denies nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_slots(settings, Slots::default())
    }

    /// The same with slots that start elsewhere.
    #[must_use]
    pub fn with_slots(settings: Settings, slots: Slots) -> Self {
        Self {
            world: World::new(settings),
            synced: Synced::default(),
            denials: Denials::new(),
            breaker: Breaker::default(),
            audit: Audit::default(),
            draining: Draining::new(),
            vacancies: Vacancies::default(),
            inherited: None,
            slots,
            steered: BTreeSet::new(),
            tables: Tables::default(),
            owners: BTreeMap::new(),
            changed_owners: BTreeSet::new(),
            generations: Generations::default(),
            touched: BTreeSet::new(),
            reuse: Reuse::default(),
            revivals: Revivals::default(),
            known_names: BTreeMap::new(),
        }
    }

    /// Takes over what an earlier process proved, once everything has been listed.
    pub fn inherit(&mut self, tables: Tables) {
        self.inherited = Some(tables);
    }

    /// Takes in a fact; afterwards [`State::tables`] is what the maps should hold.
    pub fn apply(&mut self, now: Duration, mut fact: Fact) {
        self.start_over_if_revived(now, &mut fact);
        let was_synced = self.is_synced();
        let mut list = Watched::listed_by(&fact).filter(|watched| watched.bears_proofs());
        self.synced.note(&fact);
        let mut dirty = match fact {
            Fact::Presence(presence) => {
                self.hear_of(now, &presence);
                self.vacancies.note(presence);
                Dirty::default()
            }
            fact => dirty::absorb(&mut self.world, now, fact),
        };
        self.look_again(&dirty);
        if was_synced != self.is_synced() {
            dirty.everything = true;
            // Whichever came last: the first lists are one.
            list = Some(Watched::EndpointSlices);
            if let Some(tables) = self.inherited.take() {
                self.restore(&tables, now);
            }
            dirty.pods.extend(self.restore_deaths(now));
        }
        let displaced = self.vacancies.bury(&self.world, now, &dirty.pods);
        dirty.pods.extend(displaced);
        self.settle(now, dirty, list);
    }

    /// Lets time pass: forgets old listings, frees slots. Once a second is enough.
    pub fn tick(&mut self, now: Duration) {
        self.slots.expire(now);
        self.audit.tick(now);
        let mut forgotten: Dirty = self.world.listings.expire(now).into();
        forgotten.pods.extend(self.vacancies.expire(&self.world, now));
        forgotten.everything = self.world.forget_strays(now);
        let vacancies = &self.vacancies;
        self.generations.expire(now, |ip| vacancies.mentions(ip));
        self.settle(now, forgotten, None);
    }

    /// A packet was aimed at a denied endpoint.
    pub fn hit(&mut self, now: Duration, slot: Slot, socket: &Socket) {
        if let Some(service) = self.slots.service(slot).cloned() {
            self.world.listings.hit(now, &service, socket);
        } else {
            self.vacancies.hit(now, socket.ip);
        }
    }

    /// Whether every watch has shown everything once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.is_complete()
    }

    /// Whether it matters which IPs the node leads to: a pod lies dead on one of them, or may be found to once everything
    /// has been listed.
    #[must_use]
    pub fn asks_for_presence(&self) -> bool {
        !self.is_synced() || !self.vacancies.is_empty()
    }

    /// Whether this node is labelled as a canary.
    #[must_use]
    pub fn is_canary(&self) -> bool {
        let own = self.world.node(&self.world.settings.node);
        own.is_some_and(|node| node.canary)
    }

    /// Name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.world.settings.node
    }

    /// Which endpoints may be denied.
    #[must_use]
    pub fn ranges(&self) -> &Ranges {
        &self.world.settings.ranges
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

    /// For how long IPs had no owner, of those that got another one since the last call.
    pub fn take_reuse_gaps(&mut self) -> Vec<Duration> {
        self.reuse.take()
    }

    /// The pods that own an IP.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.owners.values().map(|owner| owner.uid)
    }

    /// All denials with their evidence.
    pub fn denials(&self) -> impl Iterator<Item = (&Name, &Socket, &Proven)> {
        self.denials
            .iter()
            .map(|((service, socket), proven)| (service, socket, proven))
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
        let claimants = self.world.pods.claimants(ip);
        claimants.filter(move |record| record.is_live() && record.pod.ips.contains(&ip))
    }

    /// The same facts with every answer judged afresh, at the cost of the whole cluster. It differs from what the facts
    /// led to one by one only if one of them touched more than its dirty set says.
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

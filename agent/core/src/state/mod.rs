//! From facts to the desired contents of the maps. Pure and synchronous: no client, no clock, no
//! await.
//!
//! ```text
//! fact -> ClusterIndex (pods, endpoints, Services, nodes) -> Services that wait
//!      -> judge -> Denials, carried out or stopped by the breaker -> Tables
//! ```

mod breaker;
mod denials;
mod dirty;
mod index;
mod node_checks;
mod not_proven;
mod orphan_ip;
mod possibly_held;
mod proof;
mod queue;
mod report;
mod review;
mod steps;
mod tables;

pub use breaker::{SecondList, StopReason, StoppedService, request_spread};
pub use index::endpoints::{Endpoint, EndpointIndex, MEMORY, Target};
pub use index::pods::Record;
pub use index::{ClusterIndex, Ipam, Ranges, Settings};
pub use not_proven::{Exemption, NotProven, NotStale};
pub use orphan_ip::OrphanIp;
pub use proof::Own;
pub use report::{
    DenialView, EndpointView, IpState, PodCounts, PodState, PodView, PossibleHolder, ServiceView,
    TargetView, UnprovenDeaths, View,
};
pub use review::{Cost, Evidence, Finding, OPEN};
pub use tables::{Changes, Numbers, Tables};

use crate::facts::{Cidr, ObjectName, Watched};
use crate::sorted_map::SortedMap;
use breaker::SecondLists;
use denials::Denials;
use epguard_common::{Addr, Denial, Owner, Uid};
use node_checks::NodeChecks;
use orphan_ip::OrphanIps;
use possibly_held::PossiblyHeld;
use queue::{Queue, Touched};
use review::Review;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use steps::{List, Piece, Revivals};
use tables::layout::Layout;
use tables::{Generations, Inherited};

/// The state machine. `now` is any clock that only goes forward.
#[derive(Debug, Clone, Default)]
pub struct State {
    cluster: ClusterIndex,
    /// The lists that have been seen at least once. Before all have, absence can have any cause.
    listed: BTreeSet<Watched>,
    /// Whether these are all, each applied in whole.
    is_listed: bool,
    /// Services that have not been judged since then.
    unjudged: BTreeSet<ObjectName>,
    denials: Denials,
    review: Review,
    orphan_ips: OrphanIps,
    /// Tables of an earlier process, until everything has been listed once.
    restored: Option<Tables>,
    /// What of them is still in force, until everything is judged.
    inherited: Option<Inherited>,
    /// Lists of which a part is applied.
    lists: BTreeMap<Watched, List>,
    queue: Queue,
    piece: Piece,
    /// The Service that took most of the last step.
    judged: Option<ObjectName>,
    layout: Layout,
    /// What OWNERS should hold.
    owners: SortedMap<Addr, Owner>,
    /// IPs whose entry in OWNERS is wrong, and after them those that have none yet.
    changed_owners: SortedMap<(bool, Addr), ()>,
    generations: Generations,
    touched: Touched,
    revivals: Revivals,
    second_lists: SecondLists,
    /// Names of pods that an earlier process knew.
    known_names: BTreeMap<Uid, ObjectName>,
    node_checks: NodeChecks,
    possibly_held: PossiblyHeld,
}

impl State {
    /// An empty state that denies nothing.
    pub fn new(settings: Settings) -> Self {
        Self::with_numbers(settings, Numbers::default())
    }

    /// An empty state that gives these numbers to Services.
    pub fn with_numbers(settings: Settings, numbers: Numbers) -> Self {
        let layout = Layout::new(numbers);
        Self {
            cluster: ClusterIndex::new(settings),
            layout,
            ..Self::default()
        }
    }

    /// The same, which judges about so many endpoints at once.
    pub const fn with_piece(mut self, endpoints: usize) -> Self {
        self.piece = Piece { endpoints };
        self
    }

    /// The ranges of this node if the state needs the routes to their parts: a dead pod had one of
    /// the IPs, or may be found to once everything has been listed.
    pub fn ranges_in_question(&self) -> &[Cidr] {
        let is_asked = !self.is_listed() || !self.orphan_ips.is_empty();
        let node = self
            .cluster
            .nodes
            .get(&self.cluster.settings.node)
            .filter(|_| is_asked);
        node.map_or(&[], |node| &node.pod_cidrs)
    }

    /// True if a Service redirects its denied flows, so that the tables may have backends.
    pub const fn redirects(&self) -> bool {
        self.cluster.redirecting > 0
    }

    /// True if every watch has shown everything once.
    pub const fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// True if, besides, all endpoints have been judged on that. Until then the tables lack denials
    /// that hold.
    pub fn is_synced(&self) -> bool {
        self.is_listed && self.unjudged.is_empty()
    }

    /// The Service that took most of the last step; none if that was a part of a list.
    pub const fn judged(&self) -> Option<&ObjectName> {
        self.judged.as_ref()
    }

    /// The facts that were applied.
    pub const fn cluster(&self) -> &ClusterIndex {
        &self.cluster
    }

    /// Name of this node.
    pub fn node(&self) -> &str {
        &self.cluster.settings.node
    }

    /// What SUSPECTS, SERVICES and DENIED should hold.
    pub fn tables(&self) -> &Tables {
        &self.layout.tables
    }

    /// The keys of [`State::tables`] that may have changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.layout.changes)
    }

    /// Until the state is synced: what an earlier process left and no fact contradicts, and the
    /// keys of what was taken out since the last call; none if nothing was.
    pub fn take_contradicted(&mut self) -> Option<(&Tables, Changes)> {
        self.inherited.as_mut()?.take_changes()
    }

    /// What OWNERS should hold, and which of its keys changed since the last call. Owners that went
    /// or were replaced are all among them; new ones as far as there is room for so many.
    pub fn take_owners(&mut self, most: usize) -> (&SortedMap<Addr, Owner>, BTreeSet<Addr>) {
        let wrong = self
            .changed_owners
            .keys()
            .take_while(|(is_new, _)| !is_new)
            .count();
        let keys = self.changed_owners.take_first(most.max(wrong));
        (&self.owners, keys.into_iter().map(|(_, ip)| ip).collect())
    }

    /// How long IPs had no owner, for those that got another one since the last call.
    pub fn take_reuse_gaps(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.generations.gaps)
    }

    /// The pods that own an IP.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.owners.values().map(|owner| owner.uid)
    }

    /// All denials, as they are proven: `stopped` is 0 for stopped ones, too.
    pub fn denials(&self) -> impl Iterator<Item = (&ObjectName, &Endpoint, &Denial)> {
        self.denials
            .iter()
            .map(|(service, endpoint, denied)| (service, endpoint, &denied.proven))
    }

    /// True if the breaker stops a denial: it is only reported, until a second list agrees.
    pub fn is_stopped(&self, service: &ObjectName, endpoint: &Endpoint) -> bool {
        self.denials
            .get(service, endpoint)
            .is_some_and(|denied| denied.stopped.is_some())
    }

    /// Services with stopped denials.
    pub fn stopped_services(&self, now: Duration) -> BTreeMap<&ObjectName, StoppedService> {
        self.denials.stopped_services(&self.cluster, now)
    }

    /// Denials that were found to be wrong since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.review.findings)
    }

    /// The past denials that are still open to contrary evidence.
    pub const fn review(&self) -> &Review {
        &self.review
    }

    /// The numbers of Services that have, or lately had, denials.
    pub const fn numbers(&self) -> &Numbers {
        &self.layout.numbers
    }

    /// Takes over the names of pods that an earlier process knew.
    pub fn know_names(&mut self, names: BTreeMap<Uid, ObjectName>) {
        self.known_names = names;
    }

    /// Namespace and name of a pod that is still known, or that an earlier process knew.
    pub fn pod_name(&self, uid: Uid) -> Option<&ObjectName> {
        let name = self.cluster.pods.get(uid).map(|record| &record.pod.name);
        name.filter(|pod| !pod.name.is_empty())
            .or_else(|| self.known_names.get(&uid))
    }

    /// IPs about which anything may have changed since the last call, at most so many, and whether
    /// they are some of a mass of more than `mass`, or of a list.
    pub fn take_touched(&mut self, most: usize, mass: usize) -> (BTreeSet<Addr>, bool) {
        self.touched.take(most, mass, self.is_half_applied())
    }

    /// True if there are such IPs.
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The live pods that publish an IP as their pod IP; other networks may overlap.
    pub fn live_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        let live = self.cluster.pods.live_claimants(ip);
        live.filter(move |record| record.pod.ips.contains(&ip))
    }
}

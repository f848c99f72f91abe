//! From facts to the desired contents of the maps. Pure and synchronous: no client, no clock, no
//! await.
//!
//! ```text
//! facts -> index -> what is affected -> Services that wait -> proof -> breaker -> tables
//! ```
//!
//! `step` has the order of these steps; each part imports only parts before it:
//!
//! * `index`: what the API and the node have shown. It alone writes itself: a fact returns what it
//!   `Changed`.
//! * `proof`: which endpoints of a Service are proven stale.
//! * `breaker`, `denials`: all denials, and which of them are stopped until a second list agrees.
//! * `queue`: the Services to judge. `affected`: what a change of the index adds to it.
//! * `review`, `orphan_ip`, `possibly_held`, `node_checks`, `lists`, `revival`: what else changes.
//! * `tables`: what the maps should hold.
//! * `report`: what the state has, for status, `why`, history and metrics.

mod affected;
mod breaker;
mod denials;
mod index;
mod ips_to_record;
mod lists;
mod node_checks;
mod not_proven;
mod orphan_ip;
mod possibly_held;
mod proof;
mod queue;
pub mod report;
mod review;
mod revival;
mod step;
mod tables;

pub use breaker::{SecondList, StopReason, StoppedService, request_spread};
pub use index::endpoints::{Endpoint, EndpointIndex, Target};
pub use index::former::MEMORY;
pub use index::pods::Record;
pub use index::{ClusterIndex, Ipam, Ranges, Settings};
pub use not_proven::{Exemption, HolderShows, NotProven, NotStale};
pub use orphan_ip::OrphanIp;
pub use proof::OwnPods;
pub use report::{
    DenialView, EndpointView, IpState, PodCounts, PodState, PodView, PossibleHolder, ServiceView,
    TargetView, UnprovenDeaths, View,
};
pub use review::{Contradiction, Cost, Finding, OPEN};
pub use tables::{Changes, Numbers, Tables};

use crate::facts::{Cidr, ObjectName, Selection, Text, Watched};
use crate::sorted_map::SortedMap;
use breaker::{SecondLists, Wanted};
use denials::Denials;
use epguard_common::{Addr, Denial, Owner, Uid};
use ips_to_record::IpsToRecord;
use lists::Lists;
use node_checks::NodeChecks;
use orphan_ip::OrphanIps;
use possibly_held::PossiblyHeld;
use queue::{Piece, Queue};
use review::Review;
use revival::Revivals;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tables::layout::Layout;
use tables::{Inherited, Owners};

/// The state of an agent: what it knows of the cluster, which packets it denies because of that,
/// and what it needs to know next.
///
/// It does no work of its own: its caller feeds it, runs it and drains it. `now` is any clock that
/// only goes forward.
///
/// 1. Feed it. [`State::begin_fact`] applies a fact, [`State::begin_list`] a list of everything;
///    while [`State::is_applying`] holds for a watch, its further facts wait. Once a second, call
///    [`State::begin_tick`]. Packets that the kernel reports go to [`State::hit`] and
///    [`State::add_denied_packet`].
/// 2. Run it. [`State::run_step`] applies a part of a list, or judges Services that wait; call it
///    again as long as it returns true and there is time. [`State::apply`] and [`State::tick`] do
///    1 and 2 at once.
/// 3. Write the maps after that, whatever else waits: what the facts may contradict is no longer in
///    the tables. Until [`State::is_synced`], [`State::take_contradicted`] returns what is left of
///    an earlier process; from then on [`State::take_changes`] and [`State::take_owners`] return
///    the keys to write, with the values in [`State::tables`].
/// 4. Request what it needs: the lists of [`State::take_second_lists`], the Nodes of
///    [`State::take_node_check`], and a list of every watch once [`State::take_revived`] returns a
///    pod. What comes is a fact: 1.
/// 5. Act on [`State::take_findings`]: denials that were wrong. [`State::demote`] bounds a Service.
/// 6. Report, which decides nothing: [`State::take_ips_to_record`] for the history,
///    [`State::take_reuse_gaps`], and the functions of [`report`].
///
/// An earlier process is taken over before the first fact: [`State::with_numbers`],
/// [`State::know_names`], [`State::restore`].
#[derive(Debug, Clone, Default)]
pub struct State {
    cluster: ClusterIndex,
    lists: Lists,
    /// The watches, also that of the mode policy, that have listed everything since the API last went
    /// back.
    listed_since_rewind: BTreeSet<Watched>,
    /// Services that have not been judged since everything was listed.
    unjudged: BTreeSet<ObjectName>,
    queue: Queue,
    piece: Piece,
    /// The Service that took most of the last step.
    judged: Option<ObjectName>,
    denials: Denials,
    second_lists: SecondLists,
    review: Review,
    orphan_ips: OrphanIps,
    possibly_held: PossiblyHeld,
    node_checks: NodeChecks,
    revivals: Revivals,
    layout: Layout,
    owners: Owners,
    /// Tables of an earlier process, until everything has been listed once.
    restored: Option<Tables>,
    /// What of them is still in force, until everything is judged.
    inherited: Option<Inherited>,
    /// Names of pods that an earlier process knew.
    known_names: BTreeMap<Uid, ObjectName>,
    ips_to_record: IpsToRecord,
}

impl State {
    /// An empty state that denies nothing.
    pub fn new(settings: Settings) -> Self {
        Self::with_numbers(settings, Numbers::default())
    }

    /// An empty state that gives these numbers to Services.
    pub fn with_numbers(settings: Settings, numbers: Numbers) -> Self {
        Self {
            cluster: ClusterIndex::new(settings),
            layout: Layout::new(numbers),
            ..Self::default()
        }
    }

    /// The same, which judges about so many endpoints at once.
    pub const fn with_piece(mut self, endpoints: usize) -> Self {
        self.piece = Piece { endpoints };
        self
    }

    /// Takes over the names of pods that an earlier process knew.
    pub fn know_names(&mut self, names: BTreeMap<Uid, ObjectName>) {
        self.known_names = names;
    }

    /// True if something is left to do or to write.
    pub fn has_backlog(&self) -> bool {
        self.is_half_applied()
            || !self.queue.is_empty()
            || self.is_synced() && self.owners.has_changes()
    }

    /// What the maps of denials should hold: SUSPECTS, SERVICES, DENIED, BACKENDS and TERMINATED.
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
        let changed = self.owners.take_changed(most);
        (&self.owners.entries, changed)
    }

    /// The lists to request now.
    pub fn take_second_lists(&mut self, now: Duration) -> Vec<SecondList> {
        let wanted = self.wanted_second_lists();
        let spread = self.spread();
        self.second_lists.take_due(now, &wanted, spread)
    }

    /// The next Node that has to be asked for, so that
    /// [`Fact::NodeSeen`](crate::facts::Fact::NodeSeen) shows whether it is still there. The time
    /// is that over which all agents spread such requests.
    pub fn take_node_check(&mut self, now: Duration) -> Option<(Text, Duration)> {
        self.node_checks.take(now, self.cluster.nodes.count())
    }

    /// The dead pod that the API has shown alive since the last call, if any. The state has started
    /// over and needs a list of every watch.
    pub fn take_revived(&mut self) -> Option<ObjectName> {
        self.revivals.take_revived()
    }

    /// Denials that were found to be wrong since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.review.findings)
    }

    /// IPs about which anything may have changed since the last call, at most so many, and whether
    /// they are some of a mass of more than `mass`, or of a list.
    pub fn take_ips_to_record(&mut self, most: usize, mass: usize) -> (BTreeSet<Addr>, bool) {
        self.ips_to_record.take(most, mass, self.is_half_applied())
    }

    /// True if there are such IPs.
    pub fn has_ips_to_record(&self) -> bool {
        !self.ips_to_record.is_empty()
    }

    /// How long IPs had no owner, for those that got another one since the last call.
    pub fn take_reuse_gaps(&mut self) -> Vec<Duration> {
        self.owners.take_reuse_gaps()
    }

    /// The ranges of this node if the state needs the routes to their parts: a dead pod had one of
    /// the IPs, or may be found to once everything has been listed.
    pub fn ranges_in_question(&self) -> &[Cidr] {
        if self.is_listed() && self.orphan_ips.is_empty() {
            return &[];
        }
        let node = self.cluster.nodes.get(&self.cluster.settings.node);
        node.map_or(&[], |node| &node.pod_cidrs)
    }

    /// True if a Service redirects its denied flows, so that the tables may have backends.
    pub const fn redirects(&self) -> bool {
        self.cluster.redirecting > 0
    }

    /// True if the watch has listed everything since the API last went back, or ever if it has not.
    pub fn has_listed(&self, watched: Watched) -> bool {
        self.listed_since_rewind.contains(&watched)
    }

    /// True if every watch has shown everything once.
    pub const fn is_listed(&self) -> bool {
        self.lists.are_all_listed()
    }

    /// True if, besides, all endpoints have been judged on that. Until then the tables lack denials
    /// that hold.
    pub fn is_synced(&self) -> bool {
        self.is_listed() && self.unjudged.is_empty()
    }

    /// True if a list of the watch is applied only in part: its further facts have to wait.
    pub fn is_applying(&self, watched: Watched) -> bool {
        self.lists.is_applying(watched)
    }

    /// True between the parts of a list: no Service is judged, for an object further down may
    /// contradict the one at hand. Those that a part concerns have no VIPs until the list is
    /// applied.
    pub fn is_half_applied(&self) -> bool {
        self.lists.is_half_applied()
    }

    /// When the first list came of which only a part is applied.
    pub fn half_applied_since(&self) -> Option<Duration> {
        self.lists.half_applied_since()
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

    /// The pods that own an IP.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.owners.entries.values().map(|owner| owner.uid)
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

    /// The collections of which the state would request a list now, whole or narrow.
    pub fn wanted_lists(&self) -> BTreeSet<Watched> {
        self.wanted_second_lists()
            .into_keys()
            .map(|list| list.kind)
            .collect()
    }

    fn wanted_second_lists(&self) -> Wanted {
        let mut wanted = self.denials.awaited_lists(&self.cluster);
        // An IP of a death on this node that one list has shown is unused only if none of the
        // node's pods may hold it.
        if self.is_synced() && self.orphan_ips.has_doubtful_death(&self.cluster) {
            let of_node = SecondList {
                kind: Watched::Pods,
                selection: Some(Selection::OnNode(self.node().into())),
            };
            wanted.insert(of_node, BTreeSet::new());
        }
        wanted
    }

    /// The time over which all agents spread lists.
    pub fn spread(&self) -> Duration {
        request_spread(self.cluster.nodes.count())
    }

    /// Services that are only observed because a denial was wrong.
    pub fn demoted(&self) -> &BTreeSet<ObjectName> {
        &self.cluster.demoted
    }

    /// The past denials that are still open to contrary evidence.
    pub const fn review(&self) -> &Review {
        &self.review
    }

    /// The numbers of Services that have, or lately had, denials.
    pub const fn numbers(&self) -> &Numbers {
        &self.layout.numbers
    }

    /// Namespace and name of a pod that is still known, or that an earlier process knew.
    pub fn pod_name(&self, uid: Uid) -> Option<&ObjectName> {
        let shown = self.cluster.pods.get(uid);
        shown
            .and_then(|record| record.pod.known_name())
            .or_else(|| self.known_names.get(&uid))
    }

    /// The live pods that publish an IP as their pod IP; other networks may overlap.
    pub fn live_claimants(&self, ip: Addr) -> impl Iterator<Item = &Record> {
        let live = self.cluster.pods.live_claimants(ip);
        live.filter(move |record| record.pod.ips.contains(&ip))
    }
}

//! The proof of `terminated`: an orphan IP of this node, whose last owner is dead and that no pod
//! holds.
//!
//! Absence alone proves nothing. The proof takes a dead pod, a range that only this node hands out,
//! an API that shows no other pod that may hold the IP, and a node with no route to the IP or to a
//! part of the range. The kernel denies only packets that leave the node.

use super::breaker::ReceivedList;
use super::index::ClusterIndex;
use super::index::former::MEMORY;
use super::index::pods::Record;
use crate::facts::{Presence, Routes, Selection};
use epguard_common::{Addr, Mode, Uid, UidState, capacity};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// An unused IP whose last pod is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanIp {
    /// The pod that had it last.
    pub dead: Uid,
    /// Highest mode for packets to it.
    pub mode: Mode,
    /// The last address of the node's range that has the IP.
    pub range: Addr,
    /// When a packet from the IP was seen since the pod died, `CLOCK_BOOTTIME`: packets to it pass.
    /// The entry stays until the API shows the new holder, so that the map keeps it for the next
    /// process.
    pub lifted: Option<Duration>,
}

/// IPs of dead pods of this node, with the pod that died last.
#[derive(Debug, Clone, Default)]
pub struct OrphanIps {
    last_pods: BTreeMap<Addr, LastPod>,
    /// When a packet from the IP was last seen: it is never again an orphan IP of a pod that was
    /// dead by then.
    spoke: HashMap<Addr, Duration>,
    /// None while they are unknown: then no IP is an orphan.
    routes: Option<Routes>,
}

#[derive(Debug, Clone, Copy)]
struct LastPod {
    dead: Uid,
    /// The lowest mode that annotations of the pod and its Namespace have asked for since. It never
    /// rises: a new entry in the map could miss a packet from the IP that arrives while the entry
    /// is written.
    mode: Mode,
    /// When the API last showed the pod, or a packet was last aimed at the IP.
    last: Duration,
    /// Since when the pod is known to be dead.
    since: Duration,
    /// Whether a list of all pods of the node agrees with that.
    is_certain: bool,
    /// Whether slices list the IP for a pod that is not dead; none if that has to be looked up,
    /// which takes long where many do.
    listed_alive: Option<bool>,
}

impl OrphanIps {
    /// Applies a report about holders of IPs.
    pub fn apply(&mut self, presence: Presence) {
        match presence {
            Presence::Routes(routes) => self.routes = Some(routes),
            Presence::Unknown => self.routes = None,
            Presence::Announced(announced) => {
                if let Some(routes) = &mut self.routes {
                    routes.add(announced);
                }
            }
            Presence::Spoke(ip, at) => {
                let last = self.spoke.entry(ip).or_default();
                *last = at.max(*last);
            }
        }
    }

    /// Forgets what slices list at these IPs: they may list other pods there, or these pods may
    /// have died.
    pub fn forget_listings(&mut self, ips: impl Iterator<Item = Addr>) {
        for ip in ips {
            if let Some(last_pod) = self.last_pods.get_mut(&ip) {
                last_pod.listed_alive = None;
            }
        }
    }

    /// The same for all IPs.
    pub fn forget_all_listings(&mut self) {
        for last_pod in self.last_pods.values_mut() {
            last_pod.listed_alive = None;
        }
    }

    /// Drops all dead pods when the state starts over. Packets seen from IPs stay stored: the API
    /// did not report them.
    pub fn start_over(&mut self) {
        self.last_pods.clear();
    }

    /// Restores a dead pod that an earlier process had proven.
    pub fn restore(&mut self, ip: Addr, OrphanIp { dead, mode, .. }: OrphanIp, now: Duration) {
        self.last_pods
            .entry(ip)
            .or_insert(LastPod::new(dead, mode, now));
    }

    /// Notes a packet to the IP.
    pub fn hit(&mut self, now: Duration, ip: Addr) {
        if let Some(last_pod) = self.last_pods.get_mut(&ip) {
            last_pod.last = now;
        }
    }

    /// True if there is nothing to prove.
    pub fn is_empty(&self) -> bool {
        self.last_pods.is_empty()
    }

    /// True if an entry refers to the pod.
    pub fn knows(&self, uid: Uid) -> bool {
        self.last_pods.values().any(|last_pod| last_pod.dead == uid)
    }

    /// True if a pod died at the IP, so that its later owners matter.
    pub fn mentions(&self, ip: Addr) -> bool {
        self.last_pods.contains_key(&ip)
    }

    /// Stores the dead pods at their IPs. Returns the pods that they replace, to which no entry
    /// refers any more.
    pub fn record_dead(
        &mut self,
        cluster: &ClusterIndex,
        now: Duration,
        pods: &BTreeSet<Uid>,
    ) -> Vec<Uid> {
        let mut displaced = Vec::new();
        for record in pods.iter().filter_map(|uid| cluster.pods.get(*uid)) {
            if record.uid_state != UidState::Dead
                || !cluster.is_own(&record.pod)
                || cluster.exempt(record).is_some()
            {
                continue;
            }
            let dead = record.pod.uid;
            for (ip, claim) in record.claims.iter() {
                if !claim.published {
                    continue;
                }
                let new = LastPod::new(dead, Mode::Enforce, now);
                let last_pod = self.last_pods.entry(*ip).or_insert(new);
                let earlier = cluster
                    .pods
                    .get(last_pod.dead)
                    .and_then(|earlier| earlier.claims.get(ip));
                if last_pod.dead == dead {
                    last_pod.last = now;
                } else if earlier.is_none_or(|earlier| {
                    cluster.pods.order_of(claim) >= cluster.pods.order_of(earlier)
                }) {
                    displaced.push(last_pod.dead);
                    *last_pod = new;
                }
            }
        }
        displaced
    }

    /// Drops entries whose pod the API has not shown, and whose IP no packet was sent to, for
    /// [`MEMORY`]. Returns their pods.
    pub fn expire(&mut self, cluster: &ClusterIndex, now: Duration) -> Vec<Uid> {
        let is_old = |_: &Addr, last_pod: &mut LastPod| {
            if cluster
                .pods
                .get(last_pod.dead)
                .is_some_and(|record| record.present)
            {
                last_pod.last = now;
            }
            now.saturating_sub(last_pod.last) >= MEMORY
        };
        self.last_pods
            .extract_if(.., is_old)
            .map(|(_, last_pod)| last_pod.dead)
            .collect()
    }

    /// True if only one list of this node's pods showed a death: nothing is denied on it before a
    /// second one agrees.
    pub fn has_doubtful_death(&self, cluster: &ClusterIndex) -> bool {
        self.last_pods.values().any(|last_pod| {
            let dead = cluster
                .pods
                .get(last_pod.dead)
                .filter(|record| record.uid_state == UidState::Dead);
            dead.is_some_and(|record| !last_pod.is_dead_for_good(record))
        })
    }

    /// A death is certain once a list of all pods of this node lacks the pod, too. The list has
    /// been applied to the index.
    pub fn apply_list(&mut self, cluster: &ClusterIndex, list: &ReceivedList) {
        let Some(Selection::OnNode(node)) = &list.part else {
            return;
        };
        if *node != cluster.settings.node {
            return;
        }
        for last_pod in self.last_pods.values_mut() {
            let record = cluster.pods.get(last_pod.dead);
            let is_dead = record.is_some_and(|record| record.uid_state == UidState::Dead);
            if is_dead && list.is_later_than(last_pod.since) {
                last_pod.is_certain = true;
            }
        }
    }

    /// The proven orphan IPs, lifted or not. `last_owner` returns the pod that was last seen alive
    /// with an IP.
    pub fn proven(
        &mut self,
        cluster: &ClusterIndex,
        last_owner: impl Fn(Addr) -> Option<Uid>,
    ) -> BTreeMap<Addr, OrphanIp> {
        for (ip, last_pod) in &mut self.last_pods {
            last_pod
                .listed_alive
                .get_or_insert_with(|| cluster.listed_alive_anywhere(*ip));
            // A Namespace that was not seen yet may ask for less, and the mode never rises.
            if let Some(record) = cluster.pods.get(last_pod.dead)
                && cluster.knows_namespace_of(&record.pod)
            {
                last_pod.mode = last_pod.mode.lower(cluster.bound_of_pod(&record.pod));
            }
        }
        let last_pods = &self.last_pods;
        self.spoke.retain(|ip, _| last_pods.contains_key(ip));
        if self.last_pods.is_empty() {
            return BTreeMap::new();
        }
        // No pod of this node is up, or coming up, without having published its IP.
        let comes_v4 = may_come_unshown(cluster, Addr::v4([0; 4]));
        let comes_v6 = may_come_unshown(cluster, Addr::default());
        let mut proven = BTreeMap::new();
        for (ip, last_pod) in &self.last_pods {
            let lifted = self.lifted(cluster, *ip, last_pod);
            let may_come = if ip.is_v4() { comes_v4 } else { comes_v6 };
            let is_orphan = !may_come
                && last_owner(*ip).is_none_or(|owner| owner == last_pod.dead)
                && self.is_orphan(cluster, *ip, last_pod);
            if lifted.is_none() && !is_orphan {
                continue;
            }
            let range = cluster.own_range_of(*ip);
            proven.insert(
                *ip,
                OrphanIp {
                    dead: last_pod.dead,
                    mode: last_pod.mode,
                    range: range.map(|range| range.last).unwrap_or_default(),
                    lifted,
                },
            );
            if proven.len() == capacity::TERMINATED {
                break;
            }
        }
        proven
    }

    /// True if nothing else than its last pod, which is dead, may hold the IP.
    fn is_orphan(&self, cluster: &ClusterIndex, ip: Addr, last_pod: &LastPod) -> bool {
        let Some(record) = cluster.pods.get(last_pod.dead) else {
            return false;
        };
        let Some(routes) = &self.routes else {
            return false;
        };
        last_pod.mode != Mode::Off
            && !routes.may_lead_to(ip)
            && last_pod.is_dead_for_good(record)
            && cluster.knows_namespace_of(&record.pod)
            && is_unclaimed(cluster, ip)
            && last_pod.listed_alive == Some(false)
    }

    /// When a packet from the IP was last seen since the pod died; none if a live pod shows the IP,
    /// which suffices by itself. If no watch showed the death, every such packet counts: it may
    /// have come later.
    fn lifted(&self, cluster: &ClusterIndex, ip: Addr, last_pod: &LastPod) -> Option<Duration> {
        let died = cluster
            .pods
            .get(last_pod.dead)
            .map_or(Duration::ZERO, |record| record.died.into());
        let mut live = cluster.pods.live_claimants(ip);
        let is_claimed = live.any(|record| cluster.may_hold(record, ip));
        self.spoke
            .get(&ip)
            .copied()
            .filter(|at| died <= *at && !is_claimed)
    }
}

impl LastPod {
    const fn new(dead: Uid, mode: Mode, now: Duration) -> Self {
        Self {
            dead,
            mode,
            last: now,
            since: now,
            is_certain: false,
            listed_alive: None,
        }
    }

    fn is_dead_for_good(&self, record: &Record) -> bool {
        let is_certain = self.is_certain || !(record.is_by_one_list || record.is_by_narrow_lists);
        record.uid_state == UidState::Dead && is_certain
    }
}

/// True if a pod of this node is up, or coming up, that may hold an IP of the family without
/// showing it.
fn may_come_unshown(cluster: &ClusterIndex, of_family: Addr) -> bool {
    cluster
        .pods
        .live_on(&cluster.settings.node)
        .any(|record| record.may_hold_unshown(of_family))
}

/// True if only this node hands the IP out, and the API shows no pod that may hold it.
fn is_unclaimed(cluster: &ClusterIndex, ip: Addr) -> bool {
    cluster.is_exclusive(ip)
        && cluster.spared(ip).is_none()
        && !cluster.is_no_pods(ip)
        && (cluster.pods.claimants(ip))
            .all(|record| record.uid_state == UidState::Dead || !cluster.may_hold(record, ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::listing;
    use crate::state::Settings;

    #[test]
    fn what_slices_list_at_an_ip_is_looked_up_again_only_after_a_change_there() {
        let [x, y] = [1, 2].map(|last| Addr::v4([10, 244, 1, last]));
        let mut cluster = ClusterIndex::new(Settings::default());
        let mut orphan_ips = OrphanIps::default();
        let orphan_ip = OrphanIp {
            dead: Uid::NONE,
            mode: Mode::Enforce,
            range: x,
            lifted: None,
        };
        orphan_ips.restore(x, orphan_ip, Duration::ZERO);
        let mut listed_alive = |cluster: &ClusterIndex, changed: Addr| {
            orphan_ips.forget_listings([changed].into_iter());
            orphan_ips.proven(cluster, |_| None);
            orphan_ips.last_pods[&x].listed_alive
        };
        assert_eq!(listed_alive(&cluster, x), Some(false));
        let name = crate::facts::ObjectName::new("shop", "web");
        cluster
            .endpoint_index
            .set(Duration::ZERO, &name, Some(listing(&name, [x])));
        assert_eq!(listed_alive(&cluster, y), Some(false));
        assert_eq!(listed_alive(&cluster, x), Some(true));
    }
}

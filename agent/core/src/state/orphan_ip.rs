//! The proof of `terminated`: an IP of this node whose last owner is dead, and that nobody holds.
//!
//! Absence alone proves nothing. It takes a dead pod, a range that only this node hands out, an API that knows of no
//! other pod that may hold the IP, and a node whose routes and neighbours know of none. The kernel asks its own routes
//! once more for every packet.

use super::{ClusterIndex, MEMORY, Record};
use crate::facts::Presence;
use epguard_common::{Addr, Mode, Uid, UidState, capacity};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// An IP that nobody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanIp {
    /// The pod that had it last.
    pub dead: Uid,
    /// Most that may be done about packets to it.
    pub mode: Mode,
    /// When somebody spoke from there since the pod died, `CLOCK_BOOTTIME`: packets pass. The entry stays until the API
    /// shows who that is, so that the kernel remembers it for the next process.
    pub lifted: Option<Duration>,
}

/// IPs of dead pods of this node, by the pod that died last.
#[derive(Debug, Clone, Default)]
pub struct OrphanIps {
    graves: BTreeMap<Addr, Grave>,
    /// When a packet from the IP was last seen: for pods that were dead by then it is never an orphan again.
    spoke: HashMap<Addr, Duration>,
    /// What the node leads to; `None` while it has not said, and no IP is an orphan.
    held: Option<BTreeSet<Addr>>,
}

#[derive(Debug, Clone, Copy)]
struct Grave {
    dead: Uid,
    /// The lowest that the pod's annotations and its Namespace's have asked for since. It never rises: a new entry in the
    /// map could miss somebody who speaks while it is written.
    mode: Mode,
    /// When the API last showed the pod, or a packet was last aimed at the IP.
    last: Duration,
}

impl OrphanIps {
    /// Takes in what the node says.
    pub fn note(&mut self, presence: Presence) {
        match presence {
            Presence::Held(ips) => self.held = Some(ips.into_iter().collect()),
            Presence::Unknown => self.held = None,
            Presence::Came(_) | Presence::Looked(_) | Presence::Sighted(..) => {}
            Presence::Spoke(ip, at) => {
                let last = self.spoke.entry(ip).or_default();
                *last = at.max(*last);
            }
        }
    }

    /// Nothing is known of pods any more. Who spoke was no word of the API's.
    pub fn start_over(&mut self) {
        self.graves.clear();
    }

    /// An earlier process had its proof.
    pub fn inherit(&mut self, ip: Addr, OrphanIp { dead, mode, .. }: OrphanIp, now: Duration) {
        self.graves.entry(ip).or_insert(Grave {
            dead,
            mode,
            last: now,
        });
    }

    /// A packet was aimed at the IP.
    pub fn hit(&mut self, now: Duration, ip: Addr) {
        if let Some(grave) = self.graves.get_mut(&ip) {
            grave.last = now;
        }
    }

    /// Whether there is nothing to prove.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graves.is_empty()
    }

    /// Whether a pod is still referred to.
    #[must_use]
    pub fn knows(&self, uid: Uid) -> bool {
        self.graves.values().any(|grave| grave.dead == uid)
    }

    /// Whether somebody died there, so that it matters who had the IP since.
    #[must_use]
    pub fn mentions(&self, ip: Addr) -> bool {
        self.graves.contains_key(&ip)
    }

    /// Notes who died where; the pods that died there before, which are referred to no more.
    pub fn bury(&mut self, cluster: &ClusterIndex, now: Duration, pods: &BTreeSet<Uid>) -> Vec<Uid> {
        let mut displaced = Vec::new();
        let own = Some(cluster.settings.node.as_str());
        for record in pods.iter().filter_map(|uid| cluster.pods.get(*uid)) {
            if record.uid_state != UidState::Dead
                || record.pod.node.as_deref() != own
                || !cluster.is_proof(&record.pod)
            {
                continue;
            }
            for (ip, claim) in record.claims.iter().filter(|(_, claim)| claim.published) {
                let buried = self.graves.get(ip).and_then(|grave| cluster.pods.get(grave.dead));
                let earlier = buried.and_then(|buried| buried.claims.get(ip));
                if earlier.is_none_or(|earlier| claim.order >= earlier.order) {
                    let dead = record.pod.uid;
                    let mode = match self.graves.get(ip) {
                        Some(grave) if grave.dead == dead => grave.mode,
                        _ => Mode::Enforce,
                    };
                    let grave = Grave {
                        dead,
                        mode,
                        last: now,
                    };
                    let before = self.graves.insert(*ip, grave);
                    displaced.extend(before.map(|grave| grave.dead).filter(|uid| *uid != dead));
                }
            }
        }
        displaced
    }

    /// Forgets what neither the API shows nor anybody has asked for in a while; the pods that were meant.
    pub fn expire(&mut self, cluster: &ClusterIndex, now: Duration) -> Vec<Uid> {
        let mut forgotten = Vec::new();
        self.graves.retain(|_, grave| {
            if cluster.pods.get(grave.dead).is_some_and(|record| record.present) {
                grave.last = now;
            }
            let stays = now.saturating_sub(grave.last) < MEMORY;
            if !stays {
                forgotten.push(grave.dead);
            }
            stays
        });
        forgotten
    }

    /// Whether a death here was shown by one list only: nothing is denied on it before a second one agrees.
    #[must_use]
    pub fn wait_for_a_list(&self, cluster: &ClusterIndex) -> bool {
        let mut dead = self
            .graves
            .values()
            .filter_map(|grave| cluster.pods.get(grave.dead));
        dead.any(|record| record.uid_state == UidState::Dead && record.unconfirmed)
    }

    /// What is proven, lifted or not. `last_owner` is who was last seen alive with an IP.
    pub fn proven(
        &mut self,
        cluster: &ClusterIndex,
        last_owner: impl Fn(Addr) -> Option<Uid>,
    ) -> BTreeMap<Addr, OrphanIp> {
        for grave in self.graves.values_mut() {
            let asked = cluster
                .pods
                .get(grave.dead)
                .map(|record| cluster.bound_of_pod(&record.pod));
            grave.mode = grave.mode.lower(asked.unwrap_or_default());
        }
        let graves = &self.graves;
        self.spoke.retain(|ip, _| graves.contains_key(ip));
        if self.graves.is_empty() {
            return BTreeMap::new();
        }
        let nobody_is_coming = !somebody_may_hold_anything(cluster);
        let is_held = |ip: Addr| self.held.as_ref().is_none_or(|held| held.contains(&ip));
        let is_vacant = |ip: Addr, grave: &Grave| {
            nobody_is_coming
                && grave.mode != Mode::Off
                && last_owner(ip).is_none_or(|owner| owner == grave.dead)
                && !is_held(ip)
                && cluster.pods.get(grave.dead).is_some_and(is_dead_for_good)
                && is_unclaimed(cluster, ip)
        };
        let entries = self.graves.iter().map(|(ip, grave)| {
            let orphan_ip = OrphanIp {
                dead: grave.dead,
                mode: grave.mode,
                lifted: self.lifted(cluster, *ip, grave),
            };
            (*ip, grave, orphan_ip)
        });
        entries
            .filter(|(ip, grave, orphan_ip)| orphan_ip.lifted.is_some() || is_vacant(*ip, grave))
            .map(|(ip, _, orphan_ip)| (ip, orphan_ip))
            .take(capacity::TERMINATED)
            .collect()
    }

    /// When somebody spoke since the pod died, unless a live pod shows the IP, which is all it takes. Of a death that no
    /// watch showed nobody knows whether it came after.
    fn lifted(&self, cluster: &ClusterIndex, ip: Addr, grave: &Grave) -> Option<Duration> {
        let died = cluster
            .pods
            .get(grave.dead)
            .map_or(Duration::ZERO, |record| record.died);
        let is_claimed = || cluster.plausible_claimants(ip).next().is_some();
        self.spoke
            .get(&ip)
            .copied()
            .filter(|at| died <= *at && !is_claimed())
    }
}

fn is_dead_for_good(record: &Record) -> bool {
    record.uid_state == UidState::Dead && !record.unconfirmed
}

/// Whether a pod of this node is up, or coming up, without having published its IP.
fn somebody_may_hold_anything(cluster: &ClusterIndex) -> bool {
    let own = Some(cluster.settings.node.as_str());
    cluster
        .pods
        .candidates()
        .any(|record| record.pod.node.as_deref() == own)
}

/// Whether only this node hands the IP out, and the API knows of nobody who holds it.
fn is_unclaimed(cluster: &ClusterIndex, ip: Addr) -> bool {
    let own = Some(cluster.settings.node.as_str());
    cluster.is_exclusive(ip, own)
        && cluster.spared(ip).is_none()
        && (cluster.pods.claimants(ip))
            .all(|record| record.uid_state == UidState::Dead || !cluster.is_plausible(record, ip))
        && !cluster.listed_alive_anywhere(ip)
}

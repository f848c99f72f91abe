//! The pods by the IPs that they show, and by node.

use super::Record;
use super::compact::compact;
use crate::facts::Text;
use epguard_common::{Addr, Uid, UidState};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where pods are.
#[derive(Debug, Clone, Default)]
pub(super) struct PodPlaces {
    claimants: BTreeSet<(Addr, Uid)>,
    /// IPs that several of them show.
    shared: BTreeSet<Addr>,
    /// IPs that pods show in an annotation alone.
    annotated: BTreeSet<(Addr, Uid)>,
    /// Live pods by node.
    live: HashMap<Text, Vec<Uid>>,
    /// Dead pods that the API shows, by node.
    dead: HashMap<Text, BTreeSet<Uid>>,
    /// Those of the live ones that are possible holders.
    possible_holders: BTreeMap<Text, BTreeSet<Uid>>,
}

impl PodPlaces {
    /// Pods that the API shows and that show the IP on any network.
    pub(super) fn claimants(&self, ip: Addr) -> impl Iterator<Item = &Uid> {
        at(&self.claimants, ip, ip).map(|(_, uid)| uid)
    }

    /// IPs that several pods show.
    pub(super) fn shared(&self) -> impl Iterator<Item = Addr> {
        self.shared.iter().copied()
    }

    pub(super) fn possible_holders(&self) -> impl Iterator<Item = &Uid> {
        self.possible_holders.values().flatten()
    }

    pub(super) fn possible_holders_on(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.possible_holders.get(node).into_iter().flatten()
    }

    /// Live pods of a node, without those of its own network.
    pub(super) fn live_on(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.live.get(node).into_iter().flatten()
    }

    /// Dead pods of a node that the API shows, without those of its own network.
    pub(super) fn dead_on(&self, node: &str) -> impl Iterator<Item = &Uid> {
        self.dead.get(node).into_iter().flatten()
    }

    /// The IPs from `first` to `last` that pods show in an annotation alone.
    pub(super) fn annotated(&self, first: Addr, last: Addr) -> impl Iterator<Item = Addr> {
        at(&self.annotated, first, last).map(|(ip, _)| *ip)
    }

    /// Removes spare room.
    pub(super) fn compact(&mut self) {
        compact(&mut self.claimants);
    }

    pub(super) fn add(&mut self, record: &Record) {
        let (uid, pod) = (record.pod.uid, &record.pod);
        if pod.host_network {
            return;
        }
        for ip in pod.addresses().filter(|_| record.present) {
            self.claimants.insert((ip, uid));
            if self.claimants(ip).nth(1).is_some() {
                self.shared.insert(ip);
            }
            if !pod.ips.contains(&ip) {
                self.annotated.insert((ip, uid));
            }
        }
        if let Some(node) = pod.node.as_ref().filter(|_| is_dead(record)) {
            self.dead.entry(node.clone()).or_default().insert(uid);
        }
        let Some(node) = pod.node.as_ref().filter(|_| record.is_live()) else {
            return;
        };
        self.live.entry(node.clone()).or_default().push(uid);
        if record.is_possible_holder() {
            let holders = self.possible_holders.entry(node.clone()).or_default();
            holders.insert(uid);
        }
    }

    pub(super) fn remove(&mut self, record: &Record) {
        let (uid, pod) = (record.pod.uid, &record.pod);
        if pod.host_network {
            return;
        }
        for ip in pod.addresses().filter(|_| record.present) {
            self.claimants.remove(&(ip, uid));
            if self.claimants(ip).nth(1).is_none() {
                self.shared.remove(&ip);
            }
            self.annotated.remove(&(ip, uid));
        }
        if let Some(node) = pod.node.as_ref().filter(|_| is_dead(record))
            && let Some(dead) = self.dead.get_mut(node)
        {
            dead.remove(&uid);
            if dead.is_empty() {
                self.dead.remove(node);
            }
        }
        let Some(node) = pod.node.as_ref().filter(|_| record.is_live()) else {
            return;
        };
        if let Some(live) = self.live.get_mut(node) {
            live.retain(|other| *other != uid);
            if live.is_empty() {
                self.live.remove(node);
            }
        }
        if let Some(holders) = self.possible_holders.get_mut(node) {
            holders.remove(&uid);
            if holders.is_empty() {
                self.possible_holders.remove(node);
            }
        }
    }
}

fn is_dead(record: &Record) -> bool {
    record.present && record.uid_state == UidState::Dead
}

/// The pairs from the IP `first` to the IP `last`.
fn at(pairs: &BTreeSet<(Addr, Uid)>, first: Addr, last: Addr) -> impl Iterator<Item = &(Addr, Uid)> {
    let [lowest, highest] = [0, 255].map(|octet| Uid { octets: [octet; 16] });
    pairs.range((first, lowest)..=(last, highest))
}

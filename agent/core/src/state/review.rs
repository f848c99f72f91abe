//! Review of past denials, whether carried out or only reported, when more is known: none may be
//! wrong twice.
//!
//! Clocks of other machines are never compared: "at the time" is what this agent knew when the
//! packet was denied.

use super::affected::{Affected, PublishedIp};
use super::index::ClusterIndex;
use super::index::pods::Record;
use super::proof::OwnPods;
use super::queue::Scopes;
use crate::counts::{Counts, make_room, uncount};
use crate::facts::ObjectName;
use epguard_common::{Addr, Reason, Uid};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a denial is open to contrary evidence after its last packet.
pub const OPEN: Duration = Duration::from_mins(10);

/// Time from the receipt of an event to the write of the map: a packet denied so soon after could
/// not have passed, and no sandbox is up so soon after its pod was bound.
const WRITE: Duration = Duration::from_millis(50);

/// A past denial: where packets were aimed, and why they were denied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PastDenial {
    /// The endpoint's IP, or the IP itself.
    pub ip: Addr,
    /// The proof.
    pub reason: Reason,
    /// The Service; none for `terminated`.
    pub service: Option<ObjectName>,
    /// Host order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// The pod that was meant.
    pub meant: Uid,
}

/// The packets of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packets {
    /// The pod that would have been hit.
    pub owner: Uid,
    /// When the first packet was denied.
    pub first: Duration,
    /// When the last packet was denied.
    pub last: Duration,
    /// Packets that were reported; a busy client sent more.
    pub reported: u64,
    /// True if the breaker stopped the denial each time, so that every packet passed.
    pub stopped: bool,
    convicted: bool,
}

/// What contradicts a past denial: why it was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// The pod published the IP, and may have held it unpublished when a packet was denied.
    HeldUnpublished(Uid),
    /// The pod that was meant is alive.
    MeantIsAlive,
    /// A slice of the Service lists the pod that was hit, at that IP: the slices' writer meant it.
    Listed(Uid),
}

/// A denial that was wrong, once per case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was denied.
    pub case: PastDenial,
    /// The packets of the case.
    pub packets: Packets,
    /// What contradicts it.
    pub contradiction: Contradiction,
}

/// What is only observed after a denial that was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost<'a> {
    /// The Service: nobody else pays for what its tenant wrote.
    Service(&'a ObjectName),
    /// The reason, on the whole node: no Service was convicted, and no tenant can forge such
    /// evidence.
    Reason(Reason),
}

impl Finding {
    /// What the denial costs; nothing if the breaker stopped it, so that every packet passed.
    pub fn cost(&self) -> Option<Cost<'_>> {
        if self.packets.stopped {
            return None;
        }
        Some(match &self.case.service {
            Some(service) => Cost::Service(service),
            None => Cost::Reason(self.case.reason),
        })
    }
}

/// All past denials that are open to contrary evidence.
#[derive(Debug, Clone, Default)]
pub struct Review {
    open: BTreeMap<PastDenial, Packets>,
    shares: Counts<Addr>,
    /// Past denials that were dropped to make room for others.
    pub evicted: u64,
    /// Denials that were found wrong and are not taken yet.
    pub findings: Vec<Finding>,
    /// How many cases were wrong, by reason.
    pub wrong: BTreeMap<Reason, u64>,
}

impl Review {
    /// Stores a packet that was denied, or would have been.
    pub fn add_denied(
        &mut self,
        cluster: &ClusterIndex,
        seen_at: Duration,
        case: PastDenial,
        owner: Uid,
        is_stopped: bool,
    ) {
        let evicts = make_room(
            &mut self.open,
            &mut self.shares,
            &case,
            |case| case.ip,
            |packets| packets.last,
        );
        self.evicted += u64::from(evicts);
        let meant = case.meant;
        let new = Packets {
            first: seen_at,
            stopped: is_stopped,
            ..Packets::default()
        };
        let packets = self.open.entry(case).or_insert(new);
        packets.owner = owner;
        packets.last = packets.last.max(seen_at);
        packets.reported += 1;
        packets.stopped &= is_stopped;
        self.convict_if_meant_is_alive(cluster, |uid| uid == meant);
    }

    /// Reconsiders past denials after a change of the index.
    pub fn reconsider(&mut self, cluster: &ClusterIndex, affected: &Affected) {
        self.convict_if_meant_is_alive(cluster, |uid| affected.pods.contains(&uid));
        self.convict_if_listed(cluster, &affected.services);
        for published in &affected.published {
            self.convict_if_held_unpublished(cluster, published);
        }
    }

    /// Drops cases that are no longer open.
    pub fn drop_closed(&mut self, now: Duration) {
        let is_closed =
            |_: &PastDenial, packets: &mut Packets| now.saturating_sub(packets.last) >= OPEN;
        for (case, _) in self.open.extract_if(.., is_closed) {
            uncount(&mut self.shares, &case.ip, 1);
        }
    }

    /// Marks denials as wrong whose meant pod is alive, of pods that changed.
    fn convict_if_meant_is_alive(
        &mut self,
        cluster: &ClusterIndex,
        has_changed: impl Fn(Uid) -> bool,
    ) {
        self.convict(|case, _| {
            let is_for_retired = matches!(case.reason, Reason::Reused | Reason::RetiredBackend);
            if !is_for_retired || !has_changed(case.meant) {
                return None;
            }
            let is_alive = cluster.pods.get(case.meant).is_some_and(Record::is_live);
            is_alive.then_some(Contradiction::MeantIsAlive)
        });
    }

    /// Marks denials of an IP as wrong if a pod published it and may have held it since it became a
    /// possible holder.
    ///
    /// `reused` is none of them where the selector proves which pods are the Service's own: the
    /// `EndpointSlice` controller sends nobody to a pod that has not published the IP.
    fn convict_if_held_unpublished(&mut self, cluster: &ClusterIndex, published: &PublishedIp) {
        let Some(record) = cluster.pods.get(published.uid) else {
            return;
        };
        if !record.is_live() {
            return;
        }
        self.convict(|case, packets| {
            if case.ip != published.ip || packets.last < published.possible_holder_since + WRITE {
                return None;
            }
            let is_rightful = match &case.service {
                Some(name) => {
                    let service = cluster.service(name)?;
                    let is_sent_to =
                        case.reason != Reason::Reused || cluster.proves_nothing(service);
                    is_sent_to && OwnPods::new(cluster, service).contains(&record.pod)
                }
                None => cluster.is_own(&record.pod),
            };
            is_rightful.then_some(Contradiction::HeldUnpublished(published.uid))
        });
    }

    /// Marks denials as wrong whose hit pod a slice of the Service lists at the IP, after slices
    /// changed. Where the selector proves which pods are the Service's own, the selector or the
    /// pod's labels were others when the packet was denied.
    fn convict_if_listed(&mut self, cluster: &ClusterIndex, changed: &Scopes) {
        self.convict(|case, packets| {
            let name = case.service.as_ref()?;
            if !changed.contains_key(name) {
                return None;
            }
            let is_listing_enough = cluster.proves_nothing(cluster.service(name)?);
            let is_listed = cluster.endpoint_index.lists(name, case.ip, packets.owner);
            (is_listing_enough && is_listed).then_some(Contradiction::Listed(packets.owner))
        });
    }

    fn convict(&mut self, contradicts: impl Fn(&PastDenial, &Packets) -> Option<Contradiction>) {
        for (case, packets) in &mut self.open {
            if packets.convicted {
                continue;
            }
            let Some(contradiction) = contradicts(case, packets) else {
                continue;
            };
            packets.convicted = true;
            *self.wrong.entry(case.reason).or_default() += 1;
            self.findings.push(Finding {
                case: case.clone(),
                packets: *packets,
                contradiction,
            });
        }
    }
}

//! A list of all objects, applied a part at a time, so that no list keeps the agent from anything else for long.
//!
//! ```text
//! list -> scanned -> each object applied, denials that it contradicts end -> all endpoints that may be denied judged
//! ```
//!
//! Until the end, denials end at once, and none begins: an object further down the list may contradict it.

use crate::facts::{Change, Fact, Name, Pod, Service, Slice, Watched};
use crate::state::denials::opinions::ReceivedList;
use crate::state::dirty::Dirty;
use crate::state::index::ClusterIndex;
use epguard_common::Uid;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use std::vec::IntoIter;

/// What is left to do of a list.
#[derive(Debug, Clone)]
pub enum Task {
    /// Objects to apply.
    Apply(Watched, Objects),
    /// Services whose endpoints are to be judged, on the list that has just come.
    Judge(ReceivedList, BTreeSet<Name>),
}

/// The objects of a list that are still to be applied; none for those that are gone. Pods that are gone come first: until then they
/// would seem to share IPs with new ones.
#[derive(Debug, Clone)]
pub enum Objects {
    Pods(IntoIter<Uid>, IntoIter<Pod>),
    Slices(IntoIter<(Name, Option<Slice>)>),
    Services(IntoIter<(Name, Option<Service>)>),
}

impl Objects {
    /// The objects of a fact, if it is a list of many.
    #[allow(clippy::result_large_err, reason = "the error is the fact itself, which goes on")]
    pub fn from_list(cluster: &mut ClusterIndex, fact: Fact) -> Result<(Watched, Self), Fact> {
        Ok(match fact {
            Fact::Pod(Change::Reset(pods)) => {
                let listed: HashSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
                let gone = cluster.pods.begin_list(&listed);
                // No claim that the list shows first is newer than others: not at its end, and not in between.
                cluster.pods.level_claims();
                (Watched::Pods, Self::Pods(gone.into_iter(), pods.into_iter()))
            }
            Fact::Slice(list @ Change::Reset(_)) => {
                (Watched::EndpointSlices, Self::Slices(cluster.slices_by_name(list).into_iter()))
            }
            Fact::Service(list @ Change::Reset(_)) => {
                (Watched::Services, Self::Services(cluster.services_by_name(list).into_iter()))
            }
            other => return Err(other),
        })
    }

    /// Applies about so many objects and endpoints. False if none is left.
    pub fn apply(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        dirty: &mut Dirty,
        most: usize,
    ) -> bool {
        let mut done = 0;
        while done < most {
            let Some(cost) = self.apply_next(cluster, now, dirty) else { return false };
            done += cost;
        }
        true
    }

    /// Applies one object; none if none is left.
    fn apply_next(&mut self, cluster: &mut ClusterIndex, now: Duration, dirty: &mut Dirty) -> Option<usize> {
        let mut cost = 1;
        match self {
            Self::Pods(gone, listed) => {
                let touched = match gone.next() {
                    Some(uid) => Some(cluster.pods.vanish(uid)),
                    None => cluster.pods.upsert(now, listed.next()?, true),
                };
                dirty.changed_pod(touched, cluster, now);
            }
            Self::Slices(rest) => {
                let (name, slice) = rest.next()?;
                cost += slice.as_ref().map_or(0, |slice| slice.endpoints.len() * slice.ports.len());
                dirty.changed_slice(cluster, now, &name, slice);
            }
            Self::Services(rest) => {
                let (name, service) = rest.next()?;
                dirty.changed_service(cluster, now, &name, service);
            }
        }
        Some(cost)
    }
}

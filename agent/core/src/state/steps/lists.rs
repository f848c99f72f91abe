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
pub(in crate::state) enum Task {
    /// Objects to apply.
    Apply(Objects),
    /// Services whose endpoints are to be judged, on the list that has just come.
    Judge(ReceivedList, BTreeSet<Name>),
}

/// The objects of a list that are still to be applied, then the names of those that are gone.
#[derive(Debug, Clone)]
pub(in crate::state) enum Objects {
    Pods(Pods),
    Slices(Rest<Slice>),
    Services(Rest<Service>),
}

/// Pods that are gone come first: until then they would seem to share IPs with new ones.
#[derive(Debug, Clone)]
pub(in crate::state) struct Pods {
    gone: IntoIter<Uid>,
    listed: IntoIter<Pod>,
}

#[derive(Debug, Clone)]
pub(in crate::state) struct Rest<T> {
    listed: IntoIter<T>,
    gone: IntoIter<Name>,
}

impl Objects {
    /// The objects of a fact, if it is a list of many.
    #[allow(clippy::result_large_err, reason = "the error is the fact itself, which goes on")]
    pub(in crate::state) fn from_list(cluster: &mut ClusterIndex, fact: Fact) -> Result<Self, Fact> {
        Ok(match fact {
            Fact::Pod(Change::Reset(pods)) => {
                let listed: HashSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
                let gone = cluster.pods.begin_list(&listed);
                // No claim that the list shows first is newer than others: not at its end, and not in between.
                cluster.pods.level_claims();
                Self::Pods(Pods { gone: gone.into_iter(), listed: pods.into_iter() })
            }
            Fact::Slice(Change::Reset(slices)) => {
                let known = cluster.endpoint_index.slices.keys();
                Self::Slices(Rest::new(slices, known, |slice| &slice.name))
            }
            Fact::Service(Change::Reset(services)) => {
                let known = cluster.services().map(|(name, _)| name);
                Self::Services(Rest::new(services, known, |service| &service.name))
            }
            other => return Err(other),
        })
    }

    pub(in crate::state) const fn watched(&self) -> Watched {
        match self {
            Self::Pods(_) => Watched::Pods,
            Self::Slices(_) => Watched::EndpointSlices,
            Self::Services(_) => Watched::Services,
        }
    }

    /// Applies about so many objects and endpoints. False if none is left.
    pub(in crate::state) fn apply(
        &mut self,
        cluster: &mut ClusterIndex,
        now: Duration,
        dirty: &mut Dirty,
        most: usize,
    ) -> bool {
        let mut done = 0;
        while done < most {
            let next = match self {
                Self::Pods(pods) => pods.apply_next(cluster, now, dirty),
                Self::Slices(slices) => slices.apply_next(cluster, now, dirty),
                Self::Services(services) => services.apply_next(cluster, now, dirty),
            };
            let Some(cost) = next else { return false };
            done += cost;
        }
        true
    }
}

impl Pods {
    fn apply_next(&mut self, cluster: &mut ClusterIndex, now: Duration, dirty: &mut Dirty) -> Option<usize> {
        let touched = match self.gone.next() {
            Some(uid) => Some(cluster.pods.vanish(uid)),
            None => cluster.pods.list(now, self.listed.next()?),
        };
        if let Some((uid, before)) = touched {
            dirty.changed_pod(cluster, now, uid, before.as_ref());
        }
        Some(1)
    }
}

impl<T> Rest<T> {
    fn new<'a>(listed: Vec<T>, known: impl Iterator<Item = &'a Name>, name: impl Fn(&T) -> &Name) -> Self {
        let names: HashSet<&Name> = listed.iter().map(&name).collect();
        let gone: Vec<Name> = known.filter(|known| !names.contains(known)).cloned().collect();
        Self { listed: listed.into_iter(), gone: gone.into_iter() }
    }
}

impl Rest<Slice> {
    fn apply_next(&mut self, cluster: &mut ClusterIndex, now: Duration, dirty: &mut Dirty) -> Option<usize> {
        let (touched, cost) = if let Some(slice) = self.listed.next() {
            let cost = 1 + slice.endpoints.len() * slice.ports.len();
            (cluster.endpoint_index.show(now, slice), cost)
        } else {
            let gone = self.gone.next()?;
            (cluster.endpoint_index.delete(now, &gone), 1)
        };
        dirty.changed_endpoints(cluster, touched);
        Some(cost)
    }
}

impl Rest<Service> {
    fn apply_next(&mut self, cluster: &mut ClusterIndex, now: Duration, dirty: &mut Dirty) -> Option<usize> {
        if let Some(service) = self.listed.next() {
            let name = service.name.clone();
            dirty.changed_service(cluster, now, &name, Some(service));
        } else {
            dirty.changed_service(cluster, now, &self.gone.next()?, None);
        }
        Some(1)
    }
}

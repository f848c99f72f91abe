//! The objects of a list that are still to be applied.

use super::ClusterIndex;
use super::changed::Changed;
use crate::facts::{Change, Fact, ObjectName, Pod, Service, Slice};
use epguard_common::Uid;
use std::collections::HashSet;
use std::vec::IntoIter;

/// The objects of a list that are still to be applied; none for those that are gone. Pods that are
/// gone come first: until then they would seem to share IPs with new ones. One at a time: two
/// possible holders that come together would each seem not to be the first.
#[derive(Debug, Clone)]
pub enum ListedObjects {
    /// All pods.
    Pods {
        /// Those that the list lacks.
        gone: IntoIter<Uid>,
        /// Those that it has.
        listed: IntoIter<Pod>,
    },
    /// The pods of a narrow list.
    SomePods {
        /// Those that the list lacks.
        gone: IntoIter<Uid>,
        /// Those that it has.
        listed: IntoIter<Pod>,
    },
    /// Slices by name.
    Slices(IntoIter<(ObjectName, Option<Slice>)>),
    /// Services by name.
    Services(IntoIter<(ObjectName, Option<Service>)>),
}

impl ClusterIndex {
    /// Begins to apply a list of many objects: [`ClusterIndex::apply_next`] applies them. `Err`:
    /// the fact, which is no such list.
    #[allow(
        clippy::result_large_err,
        reason = "the error is the fact itself, which goes on"
    )]
    pub(crate) fn begin_list(
        &mut self,
        fact: Fact,
        changed: &mut Changed,
    ) -> Result<ListedObjects, Fact> {
        match fact {
            Fact::Pod(Change::Reset(pods)) => {
                let listed: HashSet<Uid> = pods.iter().map(|pod| pod.uid).collect();
                let gone = self.pods.begin_list(&listed);
                // No claim that the list shows first is newer than others: not at its end, and not
                // in between.
                self.pods.level_claims();
                changed.levelled = true;
                Ok(ListedObjects::Pods {
                    gone: gone.into_iter(),
                    listed: pods.into_iter(),
                })
            }
            Fact::Pod(Change::Part(part)) => Ok(ListedObjects::SomePods {
                gone: self.pods.begin_part(&part).into_iter(),
                listed: part.objects.into_iter(),
            }),
            Fact::Slice(list @ (Change::Reset(_) | Change::Part(_))) => {
                let slices = self.slices_by_name(list);
                Ok(ListedObjects::Slices(slices.into_iter()))
            }
            Fact::Service(list @ Change::Reset(_)) => {
                let services = self.services_by_name(list);
                Ok(ListedObjects::Services(services.into_iter()))
            }
            other => Err(other),
        }
    }
}

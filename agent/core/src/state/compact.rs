//! Trees without spare room.

use super::State;
use crate::facts::Watched;

/// Builds a tree of the state anew.
pub(super) type Compaction = fn(&mut State);

const OF_PODS: &[Compaction] = &[
    |state| state.cluster.pods.compact(),
    |state| compact(&mut state.owners),
];

const OF_SLICES: &[Compaction] = &[
    |state| compact(&mut state.cluster.endpoint_index.ips),
    |state| state.cluster.endpoint_index.places.compact_ips(),
    |state| state.cluster.endpoint_index.places.compact_names(),
];

/// The trees that a list fills. Each takes some milliseconds to build, so they are built one at a time.
pub(super) const fn after(list: Watched) -> &'static [Compaction] {
    match list {
        Watched::Pods => OF_PODS,
        Watched::EndpointSlices => OF_SLICES,
        _ => &[],
    }
}

/// Builds a map or a set anew: insertions in any order leave a third of a tree's memory empty, and more in ascending order.
pub(super) fn compact<C>(collection: &mut C)
where
    C: Default + IntoIterator + FromIterator<C::Item>,
{
    *collection = std::mem::take(collection).into_iter().collect();
}

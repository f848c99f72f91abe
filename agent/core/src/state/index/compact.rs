//! Trees without spare room.

use crate::facts::Watched;
use crate::state::State;
use std::collections::BTreeMap;

/// Builds a tree of the state anew.
type Compaction = fn(&mut State);

/// The trees that are still to be built anew.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct Spare {
    trees: Vec<Compaction>,
    /// How many objects of each kind there were when its trees were last built.
    built: BTreeMap<Watched, usize>,
}

impl Spare {
    /// True if there are none.
    pub(in crate::state) const fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }
}

const OF_PODS: &[Compaction] = &[
    |state| state.cluster.pods.compact(),
    |state| compact(&mut state.owners),
];

const OF_SLICES: &[Compaction] = &[
    |state| compact(&mut state.cluster.endpoint_index.ips),
    |state| state.cluster.endpoint_index.places.compact_ips(),
    |state| state.cluster.endpoint_index.places.compact_names(),
];

impl State {
    /// Notes the trees to build anew after a list, because they have grown by a quarter.
    pub(in crate::state) fn note_spare(&mut self, list: Watched) {
        let (size, trees) = match list {
            Watched::Pods => (self.cluster.pods.records.len(), OF_PODS),
            Watched::EndpointSlices => (self.cluster.endpoint_index.ips.len(), OF_SLICES),
            _ => return,
        };
        let built = self.spare.built.entry(list).or_default();
        if size > *built + *built / 4 {
            *built = size;
            self.spare.trees.extend(trees);
        }
    }

    /// Builds one tree anew, which takes some milliseconds.
    pub(in crate::state) fn build_anew(&mut self) {
        if let Some(build) = self.spare.trees.pop() {
            build(self);
        }
    }
}

/// Builds a map or a set anew: insertions in any order leave a third of a tree's memory empty, and more in ascending order.
pub(in crate::state) fn compact<C>(collection: &mut C)
where
    C: Default + IntoIterator + FromIterator<C::Item>,
{
    *collection = std::mem::take(collection).into_iter().collect();
}

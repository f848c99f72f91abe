//! What a watch or a list shows about the objects of a collection.

use super::object_name::ObjectName;
use super::selection::{Part, Selection};
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

/// Change of an object of a watch.
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// A consistent list of all objects. An absent object vanished in a gap, which proves nothing.
    Reset(Vec<T>),
    /// A consistent list of some pods or slices.
    Part(Part<T>),
    /// ADDED or MODIFIED in a continuous watch.
    Applied(T),
    /// DELETED in a continuous watch, with the last state.
    Deleted(T),
    /// DELETED, with a last state that cannot be read: only its metadata is. That it is gone proves
    /// nothing else.
    Gone(T),
}

impl<T> Change<T> {
    /// Its objects by name, then, without an object, those that a list shows to be gone: of the
    /// names in the index that the list would have shown, those that it lacks. `names_in_index`
    /// gets what a list of some selects, and the names of which it proves nothing.
    pub fn by_name<N: Clone + Eq + Hash>(
        self,
        name: impl Fn(&T) -> &N,
        names_in_index: impl FnOnce(Option<(&Selection, &BTreeSet<ObjectName>)>) -> Vec<N>,
    ) -> Vec<(N, Option<T>)> {
        let (objects, expected) = match self {
            Self::Applied(object) => return vec![(name(&object).clone(), Some(object))],
            Self::Deleted(object) | Self::Gone(object) => {
                return vec![(name(&object).clone(), None)];
            }
            Self::Reset(objects) => (objects, names_in_index(None)),
            Self::Part(Part {
                selection,
                objects,
                later,
                ..
            }) => (objects, names_in_index(Some((&selection, &later)))),
        };
        let listed: HashSet<&N> = objects.iter().map(&name).collect();
        let mut gone = Vec::new();
        for expected_name in expected {
            if !listed.contains(&expected_name) {
                gone.push((expected_name, None));
            }
        }
        let mut all = Vec::with_capacity(objects.len() + gone.len());
        for object in objects {
            all.push((name(&object).clone(), Some(object)));
        }
        all.append(&mut gone);
        all
    }
}

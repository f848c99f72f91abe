//! Trees without spare room.

/// Builds a map or a set anew: insertions in any order leave a third of a tree's memory empty, and more in ascending order.
pub(super) fn compact<C>(collection: &mut C)
where
    C: Default + IntoIterator + FromIterator<C::Item>,
{
    *collection = std::mem::take(collection).into_iter().collect();
}

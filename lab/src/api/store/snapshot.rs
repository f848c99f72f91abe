//! The objects of one kind at one resourceVersion.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;

use crate::api::object::Object;

/// Objects by `namespace/name`, in the order of lists.
pub(super) type Objects = BTreeMap<String, Arc<Object>>;

/// The current objects, but for those that have changed since. It costs nothing for objects that have not.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    objects: &'a Objects,
    /// The earlier state of what has changed since; none: it did not exist.
    before: BTreeMap<&'a str, Option<&'a Arc<Object>>>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(objects: &'a Objects, before: BTreeMap<&'a str, Option<&'a Arc<Object>>>) -> Self {
        Self { objects, before }
    }

    /// The objects from a key on, in the order of their keys.
    pub(super) fn range(&self, from: Bound<&str>) -> impl Iterator<Item = (&'a str, &'a Arc<Object>)> {
        let unchanged = self.objects.range::<str, _>((from, Unbounded));
        let unchanged = unchanged.map(|(key, object)| (key.as_str(), object));
        let mut unchanged = unchanged.filter(|(key, _)| !self.before.contains_key(key)).peekable();
        let changed = self.before.range::<str, _>((from, Unbounded));
        let mut changed = changed.filter_map(|(key, object)| Some((*key, (*object)?))).peekable();
        iter::from_fn(move || match (unchanged.peek(), changed.peek()) {
            (Some((next, _)), Some((other, _))) if next < other => unchanged.next(),
            (_, Some(_)) => changed.next(),
            (_, None) => unchanged.next(),
        })
    }
}

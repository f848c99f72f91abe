//! The objects of one kind and their history.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::ops::Bound::{self, Unbounded};
use std::sync::Arc;

use crate::api::ApiError;
use crate::api::object::Object;

/// Objects by `namespace/name`, in the order of lists.
type Objects = BTreeMap<String, Arc<Object>>;

/// One change, as watches send it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) rv: u64,
    pub(super) key: String,
    /// The new state; for a deletion the last state with the deletion's resourceVersion.
    pub(crate) object: Arc<Object>,
    /// The state before; none for a new object.
    pub(crate) previous: Option<Arc<Object>>,
    pub(crate) deleted: bool,
}

/// Objects of one kind, their recent changes, and the resourceVersions that both cover.
#[derive(Debug)]
pub(super) struct Collection {
    objects: Objects,
    /// In the order of their resourceVersions.
    history: VecDeque<Arc<Change>>,
    /// resourceVersion of the last change that is no longer kept.
    dropped: u64,
    /// Lists and watches from resourceVersions below this one are expired.
    floor: u64,
    /// resourceVersion of the last change.
    pub(super) last: u64,
    keep: usize,
}

impl Collection {
    /// An empty collection that begins at `rv` and keeps the last `keep` changes.
    pub(super) fn new(rv: u64, keep: usize) -> Self {
        Self { objects: Objects::new(), history: VecDeque::new(), dropped: 0, floor: rv, last: rv, keep }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Stores a new state (or, if `deleted`, the last one) and appends it to the history.
    pub(super) fn record(&mut self, rv: u64, key: String, object: Arc<Object>, deleted: bool) {
        let previous = if deleted {
            self.objects.remove(&key)
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object))
        };
        self.last = rv;
        self.history.push_back(Arc::new(Change { rv, key, object, previous, deleted }));
        if self.history.len() > self.keep {
            self.dropped = self.history.pop_front().map_or(0, |change| change.rv);
            self.forget_before(self.dropped);
        }
    }

    /// Makes lists and watches from before `rv` fail as expired; open streams go on.
    pub(super) fn forget_before(&mut self, rv: u64) {
        self.floor = self.floor.max(rv);
    }

    /// Changes after `rv` for an open stream; expired if some of them are no longer kept.
    pub(super) fn since(&self, rv: u64) -> Result<Vec<Arc<Change>>, ApiError> {
        if rv < self.dropped {
            return Err(ApiError::expired(
                "too old resource version: the stream fell behind the kept history",
            ));
        }
        Ok(self.history.range(self.position(rv)..).cloned().collect())
    }

    /// Changes after `rv` for a new stream.
    pub(super) fn after(&self, rv: u64) -> Result<Vec<Arc<Change>>, ApiError> {
        self.check(rv)?;
        self.since(rv)
    }

    /// The place in the history of the first change after `rv`.
    fn position(&self, rv: u64) -> usize {
        self.history.partition_point(|change| change.rv <= rv)
    }

    /// The objects as they were at `rv`.
    pub(super) fn at(&self, rv: u64) -> Result<Snapshot<'_>, ApiError> {
        self.check(rv)?;
        // Of several changes of an object the first one counts.
        let changes = self.history.range(self.position(rv)..).rev();
        let before = changes.map(|change| (change.key.as_str(), change.previous.as_ref())).collect();
        Ok(Snapshot { objects: &self.objects, before })
    }

    fn check(&self, rv: u64) -> Result<(), ApiError> {
        if rv < self.floor {
            return Err(ApiError::expired(format!("too old resource version: {rv} ({})", self.floor)));
        }
        Ok(())
    }
}

/// The objects at one resourceVersion: the current ones, but for those that have changed since. It costs nothing for objects that
/// have not.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    objects: &'a Objects,
    /// The earlier state of what has changed since; none: it did not exist.
    before: BTreeMap<&'a str, Option<&'a Arc<Object>>>,
}

impl<'a> Snapshot<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;
    use serde_json::json;

    fn collection(keep: usize) -> Collection {
        let object = |number: i32| Arc::new(Object::new(Kind::Pod, &json!(number)));
        let mut c = Collection::new(10, keep);
        c.record(11, "a".into(), object(1), false);
        c.record(12, "b".into(), object(2), false);
        c.record(13, "a".into(), object(3), false);
        c.record(14, "b".into(), object(2), true);
        c
    }

    #[test]
    fn an_old_state_is_rebuilt_from_the_history() {
        let c = collection(100);
        let shown = |rv| {
            c.at(rv)
                .unwrap()
                .range(Unbounded)
                .map(|(k, v)| format!("{k}={}", v.value()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            [shown(10), shown(11), shown(12), shown(13), shown(14)],
            ["", "a=1", "a=1 b=2", "a=3 b=2", "a=3"]
        );
    }

    #[test]
    fn a_version_older_than_the_history_is_expired() {
        let c = collection(2);
        assert_eq!(c.at(11).unwrap_err().code, 410);
        assert_eq!(c.after(12).unwrap().len(), 2);
        assert_eq!(c.since(11).unwrap_err().code, 410);
        assert_eq!(c.since(12).unwrap().len(), 2);
        assert_eq!(c.since(14).unwrap().len(), 0);
    }
}
